"""Tables with text, dates, booleans and missing values in estimators."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.model_selection import cross_val_score

from sibling import FitWarning, LogisticRegression, Ridge, TaskPCA, UnknownCategoriesWarning

RNG = np.random.default_rng(0)
N = 120
TASKS = RNG.choice(["north", "south"], N)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(20, 90, N).astype(float),
        "sex": RNG.choice(["F", "M"], N),
        "smokes": pd.array(RNG.random(N) < 0.4, dtype="boolean"),
        "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(RNG.integers(0, 300, N), "D"),
    }
)
Y = TABLE["age"] / 10 + (TABLE["sex"] == "F") * 3.0 + RNG.normal(0, 0.2, N)
TABLE.loc[RNG.random(N) < 0.1, "age"] = np.nan
TABLE.loc[RNG.random(N) < 0.1, "sex"] = None


@pytest.mark.parametrize("frame", [TABLE, pl.from_pandas(TABLE)], ids=["pandas", "polars"])
def test_a_table_with_columns_of_several_kinds_is_prepared(frame):
    estimator = Ridge().fit(frame, Y, tasks=TASKS)
    assert estimator.feature_names_in_.tolist() == ["age", "sex", "smokes", "seen"]
    kinds = [column.kind for column in estimator.model_.preparation.parts[0].columns]
    assert kinds == ["number", "category", "boolean", "date"]
    assert estimator.score(frame, Y, tasks=TASKS) > 0.75
    # one encoded column for each level, and others for what is missing
    assert estimator.coef_.shape == (2, len(estimator.model_.preparation.parts[0].names))


def test_columns_of_new_rows_are_matched_by_name_and_unknown_levels_are_taken():
    estimator = Ridge().fit(TABLE, Y, tasks=TASKS)
    expected = estimator.predict(TABLE, tasks=TASKS)
    turned = TABLE[["seen", "smokes", "sex", "age"]]
    np.testing.assert_array_equal(estimator.predict(turned, tasks=TASKS), expected)
    few = TABLE.iloc[:3].assign(sex=["M", "unheard of", None])
    with pytest.warns(UnknownCategoriesWarning, match="sex: 'unheard of'"):
        assert np.isfinite(estimator.predict(few, tasks="north")).all()
    np.testing.assert_array_equal(
        estimator.predict(TABLE[TABLE["sex"] == "M"].iloc[:4], tasks="north"),
        estimator.predict(TABLE, tasks="north")[TABLE["sex"] == "M"][:4],
    )


def test_other_rows_are_refused_with_the_columns_that_the_model_takes():
    estimator = Ridge().fit(TABLE, Y, tasks=TASKS)
    with pytest.raises(ValueError, match=r"data frames with the columns 'age' \(number\), 'sex'"):
        estimator.predict(np.zeros((3, 4)), tasks="north")
    with pytest.raises(ValueError, match="the column 'sex' is missing"):
        estimator.predict(TABLE.drop(columns="sex"), tasks=TASKS)
    with pytest.raises(ValueError, match="column 'age': expected a number, got 'old'"):
        estimator.predict(TABLE.iloc[:1].assign(age="old"), tasks="north")
    with pytest.raises(ValueError, match="has no targets; ridge needs"):
        Ridge().fit(TABLE, tasks=TASKS)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Ridge().fit(TABLE, Y[:-1], tasks=TASKS)
    with pytest.raises(ValueError, match="y contains NaN"):
        Ridge().fit(TABLE, Y.where(Y > 4), tasks=TASKS)


def test_columns_that_cannot_be_used_are_left_out_with_a_warning():
    noted = TABLE.assign(note=[f"text {i}" for i in range(N)], empty=[None] * N)
    with pytest.warns(FitWarning) as issued:
        estimator = Ridge().fit(noted, Y, tasks=TASKS)
    assert [str(one.message) for one in issued] == [
        "column 'note' has 120 different texts in 120 rows and is left out",
        "column 'empty' has no values and is left out",
    ]
    assert estimator.n_features_in_ == 4
    np.testing.assert_array_equal(
        estimator.predict(noted, tasks=TASKS),
        Ridge().fit(TABLE, Y, tasks=TASKS).predict(TABLE, tasks=TASKS),
    )


def test_tables_by_task_have_the_same_levels():
    by_task = {name: TABLE[name == TASKS] for name in ("north", "south")}
    targets = {name: Y[name == TASKS] for name in by_task}
    one = Ridge().fit(by_task, targets)
    order = np.argsort(TASKS, kind="stable")
    other = Ridge().fit(TABLE.iloc[order], Y.iloc[order], tasks=TASKS[order])
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(
        one.predict(by_task)["south"], other.predict(by_task["south"], tasks="south")
    )


def test_a_table_is_prepared_anew_in_every_fold():
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(Ridge(), TABLE, Y, cv=3, params={"tasks": TASKS})
    assert (scores > 0.6).all()


def test_a_task_of_raw_rows_is_added_and_the_model_is_loaded_with_its_columns(tmp_path):
    labels = np.where(Y.median() < Y, "high", "low")
    estimator = LogisticRegression(selection="given").fit(TABLE, labels, tasks=TASKS)
    estimator.adapt(TABLE.iloc[::2], labels[::2], task="east")
    outputs = estimator.predict(TABLE, tasks="east")
    assert (outputs == labels).mean() > 0.8
    estimator.save(tmp_path / "m")
    loaded = LogisticRegression.load(tmp_path / "m")
    assert loaded.feature_names_in_.tolist() == TABLE.columns.tolist()
    np.testing.assert_array_equal(loaded.predict(TABLE, tasks="east"), outputs)
    pca = TaskPCA().fit(TABLE, tasks=TASKS)
    assert pca.transform(TABLE, tasks=TASKS).shape == (N, 2)


def test_numbers_that_are_text_are_read_as_in_uploads():
    numbers = TABLE[["age"]].fillna(1.5).assign(size=RNG.normal(size=N) * 1e4).round(2)
    plain = Ridge(gamma=1.0, selection="given").fit(numbers, Y, tasks=TASKS)
    texts = numbers.astype(str)
    with pytest.warns(FitWarning, match="is text, and is read as numbers"):
        of_text = Ridge(gamma=1.0, selection="given").fit(texts, Y, tasks=TASKS)
    np.testing.assert_array_equal(of_text.coef_, plain.coef_)
    expected = plain.predict(numbers, tasks=TASKS)
    np.testing.assert_array_equal(of_text.predict(texts, tasks=TASKS), expected)
    np.testing.assert_array_equal(of_text.predict(numbers, tasks=TASKS), expected)


def test_numbers_with_separators_are_read_as_in_the_training_rows():
    numbers = pd.DataFrame({"size": (RNG.normal(size=N) * 1e4).round(2)})
    german = numbers["size"].map(lambda x: f"{x:,.2f}".translate(str.maketrans(",.", ".,")))
    with pytest.warns(FitWarning, match="is text, and is read as numbers"):
        estimator = Ridge(gamma=1.0, selection="given").fit(german.to_frame(), Y, tasks=TASKS)
    expected = estimator.predict(numbers, tasks=TASKS)
    np.testing.assert_array_equal(estimator.predict(german.to_frame(), tasks=TASKS), expected)
    one = pd.DataFrame({"size": ["1.299"]})
    same = estimator.predict(pd.DataFrame({"size": [1299.0]}), tasks="north")
    np.testing.assert_array_equal(estimator.predict(one, tasks="north"), same)


def test_numbers_that_can_be_read_in_two_ways_are_refused():
    with pytest.raises(ValueError, match=r"'1\.299' can be 1\.299 or 1299"):
        Ridge(gamma=1.0, selection="given").fit(
            pd.DataFrame({"size": ["1.299"] * N}), Y, tasks=TASKS
        )


def test_intervals_of_pandas_are_categories():
    cut = pd.DataFrame({"age": pd.cut(TABLE["age"].fillna(50), [0, 40, 60, 100])})
    estimator = Ridge(gamma=1.0, selection="given").fit(cut, Y, tasks=TASKS)
    (column,) = estimator.model_.preparation.parts[0].columns
    assert (column.kind, column.levels) == ("category", ("(0, 40]", "(40, 60]", "(60, 100]"))
    printed = cut.astype(str)
    expected = estimator.predict(cut, tasks=TASKS)
    np.testing.assert_array_equal(estimator.predict(printed, tasks=TASKS), expected)
