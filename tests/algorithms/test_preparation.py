"""Preparation of raw rows, compared with scikit-learn, and without leaks from held-out rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

from algorithms.evaluation.scores.metrics import metrics_for
from algorithms.evaluation.selection.paths import fit_single
from algorithms.evaluation.selection.validation import score_splits
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.splits.splits import Splits
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column, DateWriting
from algorithms.wrappers.preparation.learning import Preparation
from algorithms.wrappers.preparation.recipe import Recipe
from algorithms.wrappers.preparation.recoding import recode
from algorithms.wrappers.preparation.rows import RowPreparation

COLUMNS = (
    Column("age"),
    Column("site", "category", ("north", "south", "west")),
    Column("smokes", "boolean"),
    Column("seen", "date"),
)
NUMBERS = (Column("a"), Column("b"))
#: Algorithms that predict, with the targets they need.
PREDICTS = sorted(
    name for name, a in ALGORITHMS.items() if "predict" in a.Model.methods() and name != "tlvm"
)


def tasks_for(algorithm):
    """Return raw tasks that an algorithm can be trained on."""
    target = "numbers" if algorithm.needs.target == "numbers" else "classes"
    tasks = raw_tasks(target, shares_rows=algorithm.name in ("okl", "convex-okl"))
    algorithm.check(tasks.summaries(), algorithm.parse({}))
    return tasks


def raw_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(50, 10, n),
            rng.integers(0, 3, n).astype(float),
            rng.integers(0, 2, n).astype(float),
            rng.uniform(1e9, 1.7e9, n),
        ]
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def raw_tasks(target, n=40, n_tasks=3, *, shares_rows=False):
    rng = np.random.default_rng(1)
    tasks = []
    for t in range(n_tasks):
        X = raw_rows(n, seed=0 if shares_rows else t)
        score = np.nan_to_num(X[:, 0], nan=50) / 10 + (X[:, 1] == 1) + rng.normal(0, 0.3, n)
        y = score if target == "numbers" else np.where(score > np.median(score), "high", "low")
        names = tuple(column.name for column in COLUMNS)
        tasks.append(Task.from_rows(f"task {t}", X, y=y, feature_names=names, allows_missing=True))
    return TaskSet(tuple(tasks))


@pytest.mark.parametrize("impute", ["mean", "median", "most-frequent"])
@pytest.mark.parametrize("scale", ["none", "standard", "robust"])
def test_numbers_are_those_of_scikit_learn(impute, scale):
    X = np.round(raw_rows(60)[:, [0, 3]] / [1, 1e7])
    ours = RowPreparation.learn(X, NUMBERS, Recipe(impute=impute, scale=scale))
    imputer = SimpleImputer(strategy=impute.replace("-", "_"))
    scaler = {"standard": StandardScaler, "robust": RobustScaler}.get(scale)
    theirs = make_pipeline(imputer, *([scaler()] if scaler else []))
    expected = theirs.fit_transform(X)
    gaps = MissingIndicator(features="all").fit_transform(X)
    assert ours.names == ("a", "a is missing", "b", "b is missing")
    np.testing.assert_allclose(ours.apply(X)[:, ::2], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ours.apply(X)[:, 1::2], gaps)


def test_categories_are_those_of_scikit_learn():
    codes = raw_rows(60)[:, [1]]
    codes = codes[~np.isnan(codes[:, 0])]
    column = COLUMNS[1]
    ours = RowPreparation.learn(codes, (column,), Recipe())
    texts = np.array(column.levels)[codes.astype(int)]
    theirs = ColumnTransformer([("site", OneHotEncoder(sparse_output=False), [0])])
    np.testing.assert_array_equal(ours.apply(codes), theirs.fit_transform(texts))
    assert ours.names == ("site = north", "site = south", "site = west")


def test_rare_and_unknown_values_of_a_category_share_a_column():
    codes = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [2.0]])
    ours = RowPreparation.learn(codes, (COLUMNS[1],), Recipe())
    assert ours.names == ("site = north", "site = south", "site is other")
    prepared_rows = ours.apply(np.array([[0.0], [2.0], [UNKNOWN_LEVEL], [np.nan]]))
    np.testing.assert_array_equal(prepared_rows, [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]])


def test_an_ordered_category_is_a_number_and_its_unknown_value_is_missing():
    column = Column("size", "category", ("L", "M", "S"))
    recipe = Recipe(orders={"size": ["S", "M", "L"]}, scale="none")
    ours = RowPreparation.learn(np.array([[0.0], [1.0], [2.0], [2.0]]), (column,), recipe)
    assert ours.names == ("size",)
    np.testing.assert_array_equal(ours.apply(np.array([[2.0], [1.0], [0.0]]))[:, 0], [0, 1, 2])
    assert ours.apply(np.array([[UNKNOWN_LEVEL]]))[0, 0] == 0.5  # the median of 2, 1, 0, 0


@pytest.mark.parametrize("order", [["S", "M"], ["S", "M", "L"]])
def test_an_order_needs_all_values_of_a_category(order):
    column = Column("size", "category", ("L", "M", "S")) if len(order) == 2 else Column("size")
    match = "lacks its value 'L'" if len(order) == 2 else "is not a category"
    with pytest.raises(InvalidData, match=match):
        RowPreparation.learn(np.zeros((3, 1)), (column,), Recipe(orders={"size": order}))


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        (np.inf, 0, "a finite number"),
        (3.0, 1, "position of a level"),
        (0.5, 1, "position of a level"),
        (2.0, 2, "0 or 1"),
    ],
)
def test_values_that_are_not_of_their_column_are_named(value, column, expected):
    ours = RowPreparation.learn(raw_rows(20), COLUMNS, Recipe())
    rows = raw_rows(5)
    rows[3, column] = value
    with pytest.raises(
        InvalidData, match=f"'a', row 3, column '{COLUMNS[column].name}'.*{expected}"
    ):
        ours.check(rows, task="a")


def test_large_and_constant_columns_are_scaled():
    X = np.column_stack([np.full(4, 7.0), [-1e200, 1e200, -1e200, 1e200]])
    prepared_rows = RowPreparation.learn(X, NUMBERS, Recipe()).apply(X)
    np.testing.assert_allclose(prepared_rows, [[0, -1], [0, 1], [0, -1], [0, 1]])


@pytest.mark.parametrize("scale", ["centre", "standard", "robust"])
@pytest.mark.parametrize(("value", "n"), [(0.1, 7), (2023.0, 100), (1.7e9, 7)])
def test_a_constant_column_has_scale_1_though_its_mean_is_rounded(scale, value, n):
    X = np.full((n, 2), value)
    X[0, 1] = np.nan  # whose fill value is a mean
    ours = RowPreparation.learn(X, NUMBERS, Recipe(scale=scale, impute="mean", indicators=False))
    np.testing.assert_array_equal(ours.scale, [1, 1])
    np.testing.assert_allclose(ours.apply(X), 0, atol=1e-15 * value)
    np.testing.assert_allclose(ours.apply(X + 1)[1:], 1, rtol=1e-6)


def test_each_task_has_its_own_scale_on_request():
    tasks = TaskSet(
        tuple(
            Task.from_rows(name, factor * np.random.default_rng(0).normal(3, 1, (30, 2)))
            for name, factor in (("small", 1), ("large", 100))
        )
    )
    own = Preparation.learn(tasks, None, Recipe(per_task=True)).apply(tasks.tasks)
    np.testing.assert_allclose(own["small"].X, own["large"].X, atol=1e-12)
    shared = Preparation.learn(tasks, None, Recipe()).apply(tasks.tasks)
    assert shared["large"].X.std() > 10 * shared["small"].X.std()


def test_tasks_that_share_rows_share_prepared_rows():
    X = raw_rows(30)
    names = tuple(column.name for column in COLUMNS)
    tasks = [Task(f"{i}", X, y=np.arange(30.0), feature_names=names) for i in range(2)]
    first, second = Preparation.learn(TaskSet(tuple(tasks)), COLUMNS, Recipe()).apply(tasks)
    assert first.X is second.X


@pytest.mark.parametrize(
    "dates",
    [
        DateWriting(),
        DateWriting(day_first=True),
        DateWriting(day_first=False, has_short_years=True),
    ],
)
def test_how_dates_were_written_survives_a_file(dates):
    column = Column("seen", "date", dates=dates)
    assert Column.from_json(column.to_json()) == column


def test_levels_of_other_columns_are_matched_by_name():
    given = (Column("site", "category", ("east", "north", "west")),)
    X = np.array([[0.0], [1.0], [2.0], [np.nan]])
    np.testing.assert_array_equal(
        recode(X, given, (COLUMNS[1],), task="a")[:, 0], [UNKNOWN_LEVEL, 0, 2, np.nan]
    )
    with pytest.raises(InvalidData, match="column 'site' is of the kind category; expected number"):
        recode(X, given, (Column("site"),), task="a")


def test_markers_of_the_wanted_column_are_missing_values_of_any_rows():
    """As in a call: the model knows no such number."""
    X, wanted = np.array([[-999.0], [1.5], [np.nan]]), Column("weight", missing=("-999", "none"))
    recoded = recode(X, (Column("weight"),), (wanted,), task="a")
    np.testing.assert_array_equal(recoded, [[np.nan], [1.5], [np.nan]])
    assert X[0, 0] == -999


@pytest.mark.parametrize("name", PREDICTS)
@pytest.mark.quick(6)
def test_a_mixed_table_with_gaps_trains_and_its_model_survives_a_file(name, tmp_path):
    inner = ALGORITHMS[name]
    tasks = tasks_for(inner)
    algorithm = prepared(inner, COLUMNS, None)
    params = algorithm.parse({})
    model = algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    new = raw_rows(10, seed=9)
    for method in model.available_methods():
        if method == "inverse_transform":
            continue
        outputs = getattr(model, method)(new, task="task 1")
        save_model(model, tmp_path / "model")
        again = getattr(load_model(tmp_path / "model"), method)(new, task="task 1")
        assert len(outputs) == 10
        assert outputs.tobytes() == again.tobytes()


@pytest.mark.parametrize("name", PREDICTS)
@pytest.mark.quick(6)
def test_held_out_rows_change_nothing_that_is_learned(name):
    """In every split of an evaluation, a comparison or a search: all score by this function."""
    algorithm = prepared(ALGORITHMS[name], COLUMNS, None)
    tasks = tasks_for(ALGORITHMS[name])
    held_out = {task.name: list(range(30, 40)) for task in tasks}
    splits = Splits(scheme="given", given=[held_out])

    def learned(*, spoil):
        fitted = []
        fit = fit_single(algorithm, {})

        def fit_and_keep(train, rng):
            models = fit(train, rng)
            fitted.extend(models)
            return models

        X_of = {id(task.X): task.X.copy() for task in tasks}
        for X in X_of.values() if spoil else ():
            X[30:] = [1e6, UNKNOWN_LEVEL, np.nan, 0]
        parts = tuple(replace(task, X=X_of[id(task.X)]) for task in tasks)
        score_splits(
            fit_and_keep,
            TaskSet(parts),
            splits,
            [0],
            n_candidates=1,
            metrics=metrics_for([algorithm], tasks.tasks),
            seed=0,
            trace=Trace(),
        )
        (model,) = fitted
        return {key: value.tobytes() for key, value in model.to_arrays().items()}

    assert learned(spoil=False) == learned(spoil=True)


def test_complete_columns_of_numbers_are_not_prepared_by_default():
    assert prepared(ALGORITHMS["pca"], None, None) is ALGORITHMS["pca"]


def test_a_new_task_is_prepared_as_the_model_is():
    tasks = raw_tasks("numbers")
    first, new = TaskSet(tasks.tasks[:2]), tasks.tasks[2]
    for per_task in (False, True):
        algorithm = prepared(ALGORITHMS["fmtl"], COLUMNS, Recipe(per_task=per_task))
        model = algorithm.fit(
            first, algorithm.parse({}), trace=Trace(), rng=np.random.default_rng(0)
        )
        adapted = algorithm.adapt(model, new)
        assert adapted.tasks == ("task 0", "task 1", "task 2")
        assert np.isfinite(adapted.predict(new.X, task="task 2")).all()
