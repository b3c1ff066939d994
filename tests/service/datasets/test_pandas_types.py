"""Columns of ``pandas.cut``, whose type is of pandas."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from algorithms.wrappers.preparation.pandas_types import read_as_stored, with_plain_types

FILE = "application/vnd.apache.arrow.file"
VALUES = [1.0, 2.0, 3.5, None, 4.0, 1.5]
LEVELS, CODES = ["(0, 2]", "(2, 4]"], [0, 0, 1, -1, 1, 0]
METADATA = {"ARROW:extension:name": "pandas.interval"}


def as_file(table):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


def as_pandas_writes(column):
    frame = pd.DataFrame({"task": ["a"] * len(column), "x": column})
    return as_file(pa.Table.from_pandas(frame, preserve_index=False))


def as_without_pandas(column):
    """Return a file in which the type is a note of the field, as where pandas is not imported."""
    levels = pa.array([{"left": 0, "right": 2}, {"left": 2, "right": 4}])
    codes = pa.array([None if code < 0 else code for code in column.cat.codes])
    array = pa.DictionaryArray.from_arrays(codes, levels)
    closed = METADATA | {"ARROW:extension:metadata": '{"subtype": "int64", "closed": "right"}'}
    field = pa.field("x", array.type, metadata=closed)
    tasks = pa.array(["a"] * len(column))
    return as_file(pa.table([tasks, array], schema=pa.schema([("task", pa.string()), field])))


@pytest.mark.parametrize("write", [as_pandas_writes, as_without_pandas])
@pytest.mark.parametrize("is_target", [False, True])
def test_intervals_are_a_category_of_their_printed_levels(reader, write, is_target):
    column = pd.cut(pd.Series(VALUES), [0, 2, 4])
    body = write(column)
    if is_target:
        read_as_stored()
        table = pa.ipc.open_file(body).read_all()
        body = as_file(table.append_column("z", pa.array(range(len(VALUES)))))
        result = reader.read(body, FILE, target_column="x")
        assert next(iter(reader.tasks(result))).y.tolist() == [LEVELS[c] for c in CODES if c != -1]
        return
    result = reader.read(body, FILE)
    (described,) = result["manifest"]["columns"]
    assert (described["kind"], described["levels"]) == ("category", LEVELS)
    codes = np.nan_to_num(next(iter(reader.tasks(result))).X[:, 0], nan=-1)
    assert codes.tolist() == CODES


@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
def test_intervals_without_levels_are_printed_as_pandas_does(reader, closed):
    intervals = pd.arrays.IntervalArray.from_tuples([(0.5, 1), (1, 2.25)] * 2, closed=closed)
    result = reader.read(as_pandas_writes(intervals), FILE)
    assert result["manifest"]["columns"][0]["levels"] == sorted({*map(str, intervals)})


@pytest.mark.parametrize("role", [None, "task_column", "target_column", "group_column"])
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_a_type_that_cannot_be_read_is_named_with_its_column(reader, role, is_dictionary):
    levels = pa.array([{"p": 1}, {"p": 2}])
    values = levels
    if is_dictionary:
        values = pa.DictionaryArray.from_arrays(pa.array([0, 1]), levels)
    table = pa.table({"task": ["a", "b"], "z": [1.5, 2.5], "x": values})
    options = {} if role is None else {role: ["x"] if role == "target_column" else "x"}
    result = reader.read(as_file(table), FILE, **options)
    reader.assert_rejected(result, "unsupported-dtype", "column 'x'", "struct", column="x")


PARQUET = "application/vnd.apache.parquet"
FREQUENCIES = ["M", "Q-DEC", "Y-DEC", "D", "h", "s"]


def periods(frequency, n=12):
    frame = pd.DataFrame({"task": ["a"] * n, "y": np.arange(n) % 5.0})
    frame["x"] = pd.period_range("1968-03-01 00:00", periods=n, freq=frequency)
    frame["z"] = frame["x"].astype("category")
    frame.loc[3, ["x", "z"]] = None
    return frame


def rows_of(reader, body, media_type):
    (task,) = reader.tasks(reader.read(body, media_type, target_column="y"))
    return task.X


@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_periods_are_the_same_in_frames_files_and_text(reader, frequency):
    frame = periods(frequency)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    expected = rows_of(reader, frame.to_csv(index=False).encode(), "text/csv")
    assert np.isnan(expected[3]).all()
    np.testing.assert_array_equal(rows_of(reader, as_file(table), FILE), expected)
    parquet = frame.assign(z=frame["x"]).to_parquet(index=False)  # takes no category of periods
    np.testing.assert_array_equal(rows_of(reader, parquet, PARQUET), expected)


@pytest.mark.parametrize("frequency", ["Q-MAR", "W-SUN", "W-WED", "2M", "ms", "ns"])
def test_other_periods_are_the_dates_on_which_they_start(frequency):
    frame = periods(frequency)
    column = with_plain_types(pa.Table.from_pandas(frame))["x"].to_pandas()
    starts = frame["x"].dt.start_time.dt.floor("us")
    assert column.astype("datetime64[us]").tolist() == starts.astype("datetime64[us]").tolist()


def test_a_period_of_an_unknown_frequency_keeps_its_type():
    metadata = {
        "ARROW:extension:name": "pandas.period",
        "ARROW:extension:metadata": '{"freq": "Q-X"}',
    }
    field = pa.field("x", pa.int64(), metadata=metadata)
    table = pa.table([pa.array([1])], schema=pa.schema([field]))
    assert with_plain_types(table)["x"].to_pylist() == [1]
