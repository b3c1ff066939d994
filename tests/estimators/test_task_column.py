"""Estimators keep the name of the column of tasks, and take later rows under it."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from algorithms.interface.errors import InvalidData
from sibling.estimators import Ridge
from sibling.estimators.tables import FitWarning


def frame():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"hospital": ["H0", "H1"] * 12, "age": rng.normal(size=24)})
    rows["bmi"] = rng.normal(size=24)
    return rows, np.where(rows["hospital"] == "H0", 10.0, -10.0) + rows["age"]


@pytest.fixture
def fitted():
    rows, y = frame()
    tasks = rows.pop("hospital")
    return Ridge(selection="given", gamma=0.01).fit(rows, y, tasks=tasks)


@pytest.mark.parametrize("column", ["hospital", "task", " hospital "])
def test_rows_have_their_tasks_in_a_column(fitted, column):
    rows, y = frame()
    expected = fitted.predict(rows[["age", "bmi"]], tasks=rows["hospital"])
    rows = rows.rename(columns={"hospital": column})
    np.testing.assert_array_equal(fitted.predict(rows), expected)
    assert np.abs(expected - y).max() < 5


def test_arrow_tables_keep_the_names_of_their_columns(fitted):
    rows, y = frame()
    table = pa.Table.from_pandas(rows)
    np.testing.assert_array_equal(fitted.predict(table), fitted.predict(rows))
    noted = rows.assign(note=[f"seen on day {i}, again on {i * i}" for i in range(len(rows))])
    with pytest.warns(FitWarning, match="note"):
        left_out = Ridge(selection="given").fit(
            noted.drop(columns="hospital"), y, tasks=noted["hospital"]
        )
    with_note = pa.Table.from_pandas(noted)
    np.testing.assert_array_equal(left_out.predict(with_note), left_out.predict(noted))
    chart = fitted.plot("predictions", table.drop_columns("hospital"), y, tasks=rows["hospital"])
    assert chart is not None
    with pytest.raises(ValueError, match="in another order"):
        Ridge().fit(
            {"a": table.select(["age", "bmi"]), "b": table.select(["bmi", "age"])},
            {"a": y, "b": y},
        )


@pytest.mark.parametrize("kind", [pa.table, pa.record_batch])
def test_arrow_rows_are_read_as_arrays_and_frames_with_booleans_as_numbers(kind):
    rows, y = frame()
    tasks, flags = rows["hospital"], rows["age"] > rows["age"].median()
    columns = {"bmi": rows["bmi"], "flag": flags.astype(float)}
    numbers, mixed = kind(columns), kind({**columns, "flag": flags})
    X = np.column_stack([*columns.values()])
    expected = Ridge(selection="given").fit(X, y, tasks=tasks).predict(X, tasks=tasks)
    model = Ridge(selection="given").fit(numbers, y, tasks=tasks)
    for given in (numbers, mixed):
        np.testing.assert_array_equal(model.predict(given, tasks=tasks), expected)


def test_a_row_that_contradicts_the_tasks_given_is_named(fitted):
    rows, _ = frame()
    with pytest.raises(InvalidData) as caught:
        fitted.predict(rows, tasks="H0")
    assert (caught.value.row, caught.value.column) == (1, "hospital")
    np.testing.assert_array_equal(
        fitted.predict(rows, tasks=rows["hospital"]), fitted.predict(rows)
    )


def test_the_name_survives_files_and_pickles(fitted, tmp_path):
    rows, _ = frame()
    fitted.save(tmp_path / "model")
    loaded = Ridge.load(tmp_path / "model")
    restored = pickle.loads(pickle.dumps(fitted))
    restored.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    np.testing.assert_array_equal(restored.predict(rows), fitted.predict(rows))
    assert loaded.model_.task_column == "hospital"


def test_a_column_named_task_of_the_model_is_no_task():
    rows, y = frame()
    rows = rows.rename(columns={"age": "task"})
    tasks = rows["hospital"]
    model = Ridge(selection="given", gamma=0.01).fit(rows[["task", "bmi"]], y, tasks=tasks)
    expected = model.predict(rows[["task", "bmi"]], tasks=tasks)
    np.testing.assert_array_equal(model.predict(rows), expected)


def test_arrays_keep_the_usual_name():
    rows, y = frame()
    model = Ridge(selection="given", gamma=0.01).fit(
        rows[["age", "bmi"]].to_numpy(), y, tasks=rows["hospital"].to_numpy()
    )
    assert model.model_.task_column == "task"
