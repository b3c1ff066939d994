"""The estimators of all algorithms, on arrays, data frames, and rows by task."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier, is_regressor

import sibling
from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from sibling import MTDA, MTFL, RMTPCA, Constant, FitWarning, LogisticRegression, Ridge, TaskPCA
from sibling.estimators import ESTIMATORS
from sibling.estimators.kinds import kinds_of

pytestmark = pytest.mark.filterwarnings("ignore::sibling.FitWarning")

RNG = np.random.default_rng(0)
TASKS = np.array(["south", "north", "west"])[RNG.integers(3, size=60)]
X = RNG.standard_normal((60, 4)) + (TASKS == "west")[:, np.newaxis]
Y = X @ [1.0, 2.0, 0.0, 0.0] + (TASKS == "north") + 0.1 * RNG.standard_normal(60)
LABELS = np.where(np.median(Y) < Y, "high", "low")
NAMES = list(dict.fromkeys(TASKS.tolist()))

over_estimators = pytest.mark.parametrize(
    "cls", [pytest.param(cls, id=name) for name, cls in ESTIMATORS.items()]
)


def rows_by_task(values):
    return {name: values[name == TASKS] for name in NAMES}


def targets_for(cls, kind=None):
    """Return targets that an estimator can be fitted to."""
    need = cls._algorithm.needs.target
    kind = kind or {"any": "numbers", "none": None}.get(need, need)
    return {"numbers": Y, "classes": LABELS, None: None}[kind]


def fitted(cls, **params):
    """Return an estimator fitted to rows with three tasks, and these rows by task."""
    if not cls._algorithm.needs.shared_rows:
        return cls(**params).fit(X, targets_for(cls), tasks=TASKS)
    by_task = dict.fromkeys(NAMES, X)
    return cls(**params).fit(by_task, {name: np.roll(Y, t) for t, name in enumerate(NAMES)})


def test_there_is_one_for_every_algorithm_with_its_parameters():
    assert {cls._algorithm.name for cls in ESTIMATORS.values()} == {*ALGORITHMS, "auto"}
    for name, cls in ESTIMATORS.items():
        assert getattr(sibling, name) is cls
        assert name in dir(sibling)
        extra = {"preparation", "calibration", "new_tasks", "ties", "random_state"} | (
            {"target"} if len(kinds_of(cls._algorithm)) == 2 else set()
        )
        own = set(cls._algorithm.Params.model_fields)
        assert not own & extra
        if cls._algorithm.needs.weights and "classes" in kinds_of(cls._algorithm):
            extra.add("class_weight")  # some algorithms have such a parameter, too
        assert set(cls().get_params()) == own | extra
        for method in cls._algorithm.Model.methods():
            assert callable(getattr(cls, method))
        for parameter in own:
            assert f"\n{parameter} : " in cls.__doc__


@over_estimators
def test_the_defaults_are_those_of_the_algorithm(cls):
    from sibling.estimators.fitting import parse_params

    algorithm = cls._algorithm
    values = {name: getattr(cls(), name) for name in algorithm.Params.model_fields}
    assert parse_params(algorithm, values) == algorithm.Params()


@over_estimators
def test_every_method_gives_the_outputs_of_the_algorithm_in_the_order_of_the_rows(cls):
    algorithm = cls._algorithm
    # a choice takes its seed as it is, its algorithm draws one
    drawn = int(np.random.default_rng(0).integers(2**31))
    estimator = fitted(cls, random_state=drawn if algorithm.name == "auto" else 0)
    if algorithm.needs.shared_rows:
        made = [Task.from_rows(n, X, y=np.roll(Y, t)) for t, n in enumerate(NAMES)]
    else:
        y = targets_for(cls)
        made = [
            Task.from_rows(name, rows, y=None if y is None else y[name == TASKS])
            for name, rows in rows_by_task(X).items()
        ]
    model = algorithm.fit(
        TaskSet(tuple(made)), algorithm.Params(), trace=Trace(), rng=np.random.default_rng(0)
    )
    for method in model.available_methods():
        if not hasattr(estimator, method):
            assert method == "decision_function"  # that of numbers is the prediction
            continue
        rows = X
        if method == "inverse_transform":
            rows = estimator.transform(X, tasks=TASKS)
        outputs = getattr(estimator, method)(rows, tasks=TASKS)
        for name in NAMES:
            own = name == TASKS
            expected = getattr(model, method)(rows[own], task=name)
            np.testing.assert_array_equal(outputs[own], expected)
            by_task = getattr(estimator, method)({name: rows[own]})
            np.testing.assert_array_equal(by_task[name], expected)


def test_rows_by_task_train_the_same_model_as_rows_with_names_of_tasks():
    one = MTFL(selection="given").fit(X, Y, tasks=TASKS)
    other = MTFL(selection="given").fit(rows_by_task(X), rows_by_task(Y))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.score(X, Y, tasks=TASKS) == pytest.approx(
        other.score(rows_by_task(X), rows_by_task(Y)), rel=1e-12
    )


def test_tasks_may_have_columns_of_their_own_where_the_algorithm_allows_it():
    data = {"wide": pd.DataFrame(X, columns=list("abcd")), "narrow": pd.DataFrame(X[:30, :2])}
    data["narrow"].columns = ["e", "f"]
    estimator = MTDA().fit(data, {"wide": LABELS, "narrow": LABELS[:30]})
    assert not hasattr(estimator, "n_features_in_")
    assert estimator.predict(data)["narrow"].shape == (30,)
    with pytest.raises(ValueError, match="expected the columns e, f, in this order, got f, e"):
        estimator.predict({"narrow": data["narrow"][["f", "e"]]})
    with pytest.raises(ValueError, match="expects rows of 2 numbers for predict"):
        estimator.predict({"narrow": X})
    with pytest.raises(ValueError, match="needs the same columns in every task"):
        MTFL().fit(data, {"wide": Y, "narrow": Y[:30]})


def test_covariance_matrices_by_task_are_taken():
    covariances = {name: np.cov(rows.T) for name, rows in rows_by_task(X).items()}
    rows = rows_by_task(X)
    found = TaskPCA().fit({name: c[np.newaxis] for name, c in covariances.items()})
    np.testing.assert_allclose(found.components_, TaskPCA().fit(rows).components_, atol=1e-9)


def test_without_names_of_tasks_all_rows_are_of_one_task():
    estimator = Ridge().fit(X, Y)
    assert estimator.tasks_ == ("all",)
    assert estimator.coef_.shape == (4,)
    assert isinstance(estimator.intercept_, float)
    np.testing.assert_allclose(estimator.predict(X), X @ estimator.coef_ + estimator.intercept_)


def test_rows_of_one_task_need_no_array_of_names():
    estimator = TaskPCA().fit(X, tasks=TASKS)
    np.testing.assert_array_equal(
        estimator.transform(X[:3], tasks="west"), estimator.transform(X[:3], tasks=["west"] * 3)
    )
    alone = TaskPCA().fit(X, tasks="only")
    assert alone.tasks_ == ("only",)
    assert alone.transform(X).shape == (60, 2)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (["east"] * 60, r"unknown task 'east'; did you mean 'west'\? known tasks: '"),
        (["west"] * 59, "expected the task of each of the 60 rows as tasks, got shape"),
        ([None] + ["west"] * 59, "the task of row 0 is None; expected text or an integer"),
        ([0.5] + [1.0] * 59, "the task of row 0 is 0.5; expected text or an integer"),
        (None, r"several tasks: '.*'; pass the task of each row as tasks="),
    ],
)
def test_wrong_names_of_tasks_are_explained(tasks, message):
    estimator = TaskPCA().fit(X, tasks=TASKS)
    with pytest.raises(ValueError, match=message):
        estimator.transform(X, tasks=tasks)


def test_what_is_by_task_must_be_so_throughout():
    with pytest.raises(ValueError, match="pass y by task, too"):
        MTFL().fit(rows_by_task(X), Y)
    with pytest.raises(ValueError, match="pass X by task, too"):
        MTFL().fit(X, rows_by_task(Y))
    with pytest.raises(ValueError, match="tasks= must be left out"):
        MTFL().fit(rows_by_task(X), rows_by_task(Y), tasks=TASKS)
    with pytest.raises(ValueError, match="pass y by task, too"):
        MTFL().fit(rows_by_task(X), {"north": Y})


def test_targets_of_a_score_must_be_by_task_as_the_rows_are():
    model = Ridge().fit(rows_by_task(X), rows_by_task(Y))
    with pytest.raises(ValueError, match="pass y by task, too"):
        model.score(rows_by_task(X), Y)
    with pytest.raises(ValueError, match="y is by task, but X is not"):
        model.score(X, rows_by_task(Y), tasks=TASKS)
    south, north = Y[TASKS == "south"], Y[TASKS == "north"]
    shifted = {"south": south[:-1], "north": np.append(south[-1], north)}
    rows = {name: X[name == TASKS] for name in shifted}
    with pytest.raises(ValueError, match=r"expected y for each of the \d+ rows of task 'south'"):
        model.score(rows, shifted)
    with pytest.raises(ValueError, match=r"expected sample_weight for each of the .* 'south'"):
        model.score(rows, {"south": south, "north": north}, shifted)


def test_an_integer_is_the_name_of_one_task_too():
    model = Ridge().fit({1: X[:20], 2: X[20:]}, {1: Y[:20], 2: Y[20:]})
    np.testing.assert_array_equal(model.predict(X, tasks=1), model.predict(X, tasks="1"))
    model.adapt(X[:10], Y[:10], task=4)
    assert model.tasks_ == ("1", "2", "4")
    with pytest.raises(ValueError, match="the name of a task is None"):
        model.adapt(X, Y, task=None)


def test_an_adapted_model_keeps_the_steps_of_its_fit_and_a_file_has_none(tmp_path):
    model = MTFL(selection="given").fit(X, Y, tasks=TASKS)
    history, n_iter = model.history_, model.n_iter_
    model.adapt(X[:10], Y[:10], task="new")
    assert (model.history_, model.n_iter_) == (history, n_iter)
    model.save(tmp_path / "m")
    loaded = MTFL.load(tmp_path / "m")
    assert not hasattr(loaded, "history_")
    assert not hasattr(loaded, "n_iter_")
    assert loaded.fit_info_ == model.fit_info_


def test_names_of_the_package_are_public_and_wrong_ones_get_a_suggestion():
    names = [name for name in dir(sibling) if not name.startswith("__")]
    assert {"MTFL", "Client", "RemoteEstimator", "FitWarning"} <= set(names)
    assert not {"Any", "Final", "TYPE_CHECKING", "import_module", "version"} & set(names)
    mistyped = "MTLF"
    with pytest.raises(AttributeError, match=r"no attribute 'MTLF'; did you mean .*'MTFL'"):
        getattr(sibling, mistyped)
    with pytest.raises(TypeError, match=r"^MTFL\.__init__\(\) takes 1 positional argument"):
        MTFL(1)


def test_an_empty_name_of_a_task_is_refused():
    for tasks in (" ", [""] + ["a"] * (len(X) - 1)):
        with pytest.raises(ValueError, match="the name of a task is empty"):
            Ridge().fit(X, Y, tasks=tasks)
    with pytest.raises(ValueError, match="the name of a task is empty"):
        Ridge().fit({"": X}, {"": Y})


def test_the_name_of_a_column_is_not_taken_for_the_name_of_a_task():
    frame = pd.DataFrame(X).add_prefix("x").assign(task=TASKS)
    with pytest.raises(ValueError, match=r"tasks=X.pop\('task'\)"):
        Ridge().fit(frame, Y, tasks="task")


def test_integers_and_categories_are_names_of_tasks_too():
    codes = np.array([NAMES.index(name) for name in TASKS])
    expected = TaskPCA().fit(X, tasks=TASKS).components_
    for tasks in (codes, pd.Series(TASKS, dtype="category"), pl.Series(TASKS), TASKS.tolist()):
        np.testing.assert_array_equal(TaskPCA().fit(X, tasks=tasks).components_, expected)
    assert TaskPCA().fit(X, tasks=codes).tasks_ == ("0", "1", "2")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_are_taken_and_their_columns_checked(frame):
    data = frame(dict(zip("abcd", X.T, strict=True)))
    estimator = MTFL(selection="given").fit(data, Y, tasks=TASKS)
    assert estimator.feature_names_in_.tolist() == list("abcd")
    assert estimator.n_features_in_ == 4
    plain = MTFL(selection="given").fit(X, Y, tasks=TASKS)
    np.testing.assert_array_equal(
        estimator.predict(data, tasks=TASKS), plain.predict(X, tasks=TASKS)
    )
    with pytest.raises(ValueError, match="order"):
        estimator.predict(data[["d", "c", "b", "a"]], tasks=TASKS)


def test_a_transform_can_return_data_frames():
    data = pd.DataFrame(X, columns=list("abcd"), index=range(100, 160))
    estimator = RMTPCA().set_output(transform="pandas").fit(data, tasks=TASKS)
    latent = estimator.transform(data, tasks=TASKS)
    assert latent.columns.tolist() == ["rmtpca0", "rmtpca1"]
    assert latent.index.equals(data.index)
    by_task = estimator.transform({"west": data[TASKS == "west"]})
    pd.testing.assert_frame_equal(by_task["west"], latent[TASKS == "west"])
    polars = RMTPCA().set_output(transform="polars").fit_transform(X, tasks=TASKS)
    np.testing.assert_array_equal(polars.to_numpy(), latent.to_numpy())


def test_the_kind_of_targets_decides_between_regression_and_classification():
    numbers = Ridge().fit(X, Y, tasks=TASKS)
    classes = Ridge().fit(X, LABELS, tasks=TASKS)
    assert is_regressor(numbers)
    assert is_classifier(classes)
    assert not hasattr(numbers, "decision_function")
    assert classes.classes_.tolist() == ["high", "low"]
    assert classes.decision_function(X, tasks=TASKS).shape == (60,)
    bits = (LABELS == "low").astype(int)
    assert Ridge().fit(X, bits, tasks=TASKS).predict(X, tasks=TASKS).dtype == float
    declared = Ridge(target="classes").fit(X, bits, tasks=TASKS)
    assert is_classifier(Ridge(target="classes"))
    assert set(declared.predict(X, tasks=TASKS)) == {0, 1}
    booleans = Ridge().fit(X, bits == 1, tasks=TASKS)
    assert booleans.predict(X, tasks=TASKS).dtype == bool
    assert (booleans.predict(X, tasks=TASKS) == declared.predict(X, tasks=TASKS)).all()
    with pytest.raises(ValueError, match="expected one of 'auto', 'numbers', 'classes'"):
        Ridge(target="number").fit(X, Y)
    with pytest.raises(ValueError, match="Unknown label type"):
        LogisticRegression().fit(X, Y)


def test_one_task_may_have_integers_as_labels_and_another_text():
    bits = (LABELS == "low").astype(int)
    estimator = MTDA().fit({"codes": X, "names": X}, {"codes": bits, "names": LABELS})
    outputs = estimator.predict({"codes": X, "names": X})
    assert outputs["codes"].dtype == int
    assert set(outputs["codes"]) == {0, 1}
    assert set(outputs["names"]) == {"high", "low"}


def test_columns_of_different_classes_are_not_stacked():
    own = np.where(TASKS == "west", np.char.add("very ", LABELS), LABELS)
    model = LogisticRegression(calibration=True).fit(X, own, tasks=TASKS)
    for method in (
        model.predict_proba,
        model.predict_set,
        MTDA().fit(X, own, tasks=TASKS).distances,
    ):
        with pytest.raises(ValueError, match=r"has other columns for task .*; pass X by task"):
            method(X, tasks=TASKS)
        assert method(rows_by_task(X))["west"].shape[1] == 2
        assert method(X[TASKS != "west"], tasks=TASKS[TASKS != "west"]).shape[1] == 2
    assert set(model.predict(X, tasks=TASKS)) <= set(own)


def test_the_constructor_checks_nothing_and_fit_explains():
    wrong = MTFL(gamma=-1.0)
    with pytest.raises(ValueError, match="mtfl: 'gamma': Input should be greater than"):
        wrong.fit(X, Y)
    with pytest.raises(TypeError, match="unknown parameter 'gama'; did you mean 'gamma'"):
        MTFL(gama=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'gama'"):
        wrong.set_params(gama=1.0)
    with pytest.raises(ValueError, match="preparation/scale"):
        MTFL(preparation={"scale": "big"}).fit(X, Y)


@over_estimators
def test_a_clone_has_the_parameters_and_a_copy_the_model(cls):
    estimator = fitted(cls, random_state=3)
    assert clone(estimator).get_params() == estimator.get_params()
    assert not hasattr(clone(estimator), "model_")
    again = pickle.loads(pickle.dumps(estimator))
    arrays = again.model_.to_arrays()
    for name, array in estimator.model_.to_arrays().items():
        np.testing.assert_array_equal(array, arrays[name])


def test_numbers_and_arrays_of_numpy_are_parameters_too():
    grid = np.array([0.1, 1.0])
    found = MTFL(selection="cv", grid=grid, n_folds=np.int64(2)).fit(X, Y, tasks=TASKS)
    same = MTFL(selection="cv", grid=(0.1, 1.0), n_folds=2).fit(X, Y, tasks=TASKS)
    np.testing.assert_array_equal(found.coef_, same.coef_)


def test_rows_of_a_group_are_held_out_together():
    twins = np.repeat(X, 2, axis=0)
    tasks, y, group = np.repeat(TASKS, 2), np.repeat(Y, 2), np.repeat(np.arange(60), 2)
    # rows of groups of their own are held out one by one, although their values are equal
    params = {"selection": "cv", "grid": (0.003, 30.0)}
    grouped = MTFL(**params).fit(twins, y, tasks=tasks, groups=group)
    apart = MTFL(**params).fit(twins, y, tasks=tasks, groups=np.arange(120))
    assert grouped.fit_info_["selection_errors"] != apart.fit_info_["selection_errors"]


def test_learned_quantities_have_their_usual_names():
    mtfl = MTFL(selection="given").fit(X, Y, tasks=TASKS)
    assert mtfl.coef_.shape == (3, 4)
    for t, name in enumerate(mtfl.tasks_):
        expected = X @ mtfl.coef_[t] + mtfl.intercept_[t]
        np.testing.assert_allclose(mtfl.predict(X, tasks=name), expected, atol=1e-12)
    deviation = X.std(0)
    np.testing.assert_allclose(
        mtfl.transform(X, tasks="west"),
        (X - X.mean(0)) / deviation @ mtfl.components_.T,
        atol=1e-12,
    )
    standardised = mtfl.coef_ * deviation
    np.testing.assert_allclose(mtfl.task_covariance_, standardised @ standardised.T)
    assert 0 <= mtfl.duality_gap_ <= mtfl.tolerance
    assert mtfl.objective_ > 0
    assert mtfl.n_iter_ > 1

    pca = TaskPCA(k=2).fit(X, tasks=TASKS)
    assert pca.components_.shape == (3, 2, 4)
    west = X[TASKS == "west"]
    np.testing.assert_allclose(pca.mean_[pca.tasks_.index("west")], west.mean(0))
    ratios = [pca.metrics_["rvr"][name] for name in pca.tasks_]
    np.testing.assert_allclose(pca.explained_variance_ratio_.sum(1), ratios)
    half = pca.explained_variance_.sum() / 2
    assert pca.objective_ == pytest.approx(half)
    alone = TaskPCA(k=2).fit(X)
    assert alone.components_.shape == (2, 4)
    np.testing.assert_allclose(alone.transform(X), (X - alone.mean_) @ alone.components_.T)


@over_estimators
def test_an_objective_is_that_of_all_tasks_or_there_is_none(cls):
    """The loops of an algorithm with one objective are as many for three tasks as for two."""
    estimator = fitted(cls)
    if not hasattr(estimator, "objective_") or "objective" in estimator.model_.learned():
        return
    n_loops = []
    for n_tasks in (2, 3):
        own = np.isin(TASKS, NAMES[:n_tasks])
        trace = Trace()
        y = targets_for(cls)
        made = [
            Task.from_rows(n, X[n == TASKS], y=None if y is None else y[n == TASKS])
            for n in dict.fromkeys(TASKS[own].tolist())
        ]
        cls._algorithm.fit(
            TaskSet(tuple(made)),
            cls._algorithm.Params(),
            trace=trace,
            rng=np.random.default_rng(0),
        )
        n_loops.append(len(trace.stop_reasons))
    assert n_loops[0] == n_loops[1]


def test_a_second_fit_removes_what_the_first_one_learned():
    estimator = Ridge().fit(X, LABELS, tasks=TASKS)
    assert hasattr(estimator, "classes_")
    estimator.fit(X, Y)
    assert not hasattr(estimator, "classes_")
    assert estimator.tasks_ == ("all",)


def test_integers_that_may_be_codes_of_classes_are_reported():
    codes = (LABELS == "low").astype(float)
    with pytest.warns(FitWarning, match=r"2 distinct values \(0, 1\).* set target='classes'"):
        Ridge().fit(X, codes, tasks=TASKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Ridge(target="numbers", selection="given").fit(X, codes, tasks=TASKS)


def test_warnings_of_a_fit_are_issued():
    with pytest.warns(FitWarning, match="mtfl: .*max_iter"):
        MTFL(selection="given", max_iter=1).fit(X, Y, tasks=TASKS)


@over_estimators
def test_a_task_is_added_as_the_algorithm_does_or_the_reason_why_not_is_given(cls):
    estimator = fitted(cls)
    y = targets_for(cls)
    algorithm = ALGORITHMS[estimator.model_.algorithm]  # of a choice, not its own
    if not algorithm.supports_adaptation():
        with pytest.raises(ValueError, match="cannot be adapted to a new task"):
            estimator.adapt(X, y, task="east")
        return
    before = {name: estimator.model_.to_arrays() for name in NAMES}
    expected = algorithm.adapt(estimator.model_, Task.from_rows("east", X, y=y))
    assert estimator.adapt(X, y, task="east") is estimator
    assert estimator.tasks_ == (*before, "east")
    for name, array in expected.to_arrays().items():
        np.testing.assert_array_equal(estimator.model_.to_arrays()[name], array)
    with pytest.raises(ValueError, match="already has a task 'east'"):
        estimator.adapt(X, y, task="east")


def test_an_added_task_may_have_classes_of_its_own():
    estimator = MTDA().fit(X, LABELS, tasks=TASKS)
    with pytest.raises(ValueError, match="X has 3 features"):
        estimator.adapt(X[:, :3], LABELS, task="east")
    estimator.adapt(X, np.where(LABELS == "low", "mid", "high"), task="east")
    assert estimator.classes_.tolist() == ["high", "low", "mid"]
    assert set(estimator.predict(X, tasks="east")) == {"high", "mid"}


@over_estimators
def test_a_saved_model_predicts_the_same_bits(cls, tmp_path):
    estimator = fitted(cls)
    estimator.save(tmp_path / "model.safetensors")
    loaded = cls.load(tmp_path / "model.safetensors")
    assert loaded.tasks_ == estimator.tasks_
    assert getattr(loaded, "n_features_in_", None) == 4
    for method in estimator.model_.available_methods():
        if method != "inverse_transform" and hasattr(estimator, method):
            np.testing.assert_array_equal(
                getattr(loaded, method)(X, tasks=TASKS), getattr(estimator, method)(X, tasks=TASKS)
            )


def test_a_model_of_another_algorithm_is_refused(tmp_path):
    Constant().fit(X, Y).save(tmp_path / "m")
    with pytest.raises(InvalidArtifact, match=r"a model of Constant; load it with Constant\.load"):
        Ridge.load(tmp_path / "m")


def test_a_missing_value_is_named_by_its_row_among_all_rows():
    rng = np.random.default_rng(0)
    X, y, tasks = rng.normal(size=(40, 3)), rng.normal(size=40), np.array(["a", "b"] * 20)
    model = Ridge().fit(X, y, tasks=tasks)
    X[37, 1] = np.nan
    with pytest.raises(ValueError, match="task 'b', row 37, column 1 is nan"):
        model.predict(X, tasks=tasks)


COLUMN_TYPES = {
    "list": list,
    "objects": lambda values: np.array(values, dtype=object),
    "pandas": pd.Series,
    "pandas text": lambda values: pd.Series(values, dtype="string"),
    "polars": pl.Series,
    "arrow": pa.array,
}


@pytest.mark.parametrize("column", COLUMN_TYPES.values(), ids=COLUMN_TYPES)
def test_missing_groups_and_tasks_are_no_group_and_no_task(column):
    labels = column([*TASKS[:7], None, *TASKS[8:]])
    with pytest.raises(ValueError, match=r"^row 7: the group is missing"):
        Ridge().fit(X, Y, tasks=TASKS, groups=labels)
    with pytest.raises(ValueError, match=r"^task 'a', row 7: the group is missing"):
        Ridge().fit({"a": X}, {"a": Y}, groups={"a": labels})
    with pytest.raises(ValueError, match="the task of row 7 is"):
        Ridge().fit(X, Y, tasks=labels)


@pytest.mark.parametrize("column", COLUMN_TYPES.values(), ids=COLUMN_TYPES)
def test_missing_labels_are_named_by_their_row(column):
    labels = column([*LABELS[:7], None, *LABELS[8:]])
    model = Ridge().fit(X, LABELS, tasks=TASKS)
    for use in (Ridge().fit, LogisticRegression().fit, model.score):
        with pytest.raises(ValueError, match=r"^row 7: the target is missing"):
            use(X, labels, tasks=TASKS)
    with pytest.raises(ValueError, match=r"^row 7: the target is missing"):
        model.adapt(X, labels, task="new")
    with pytest.raises(ValueError, match=r"^task 'a', row 7: the target is missing"):
        Ridge().fit({"a": X, "b": X}, {"a": labels, "b": LABELS})
    assert TaskPCA().fit(X, labels, tasks=TASKS).tasks_ == tuple(NAMES)


def test_nan_in_a_list_of_text_is_missing_and_one_group_is_none_for_each_row():
    labels = [np.nan, *TASKS[1:].tolist()]
    with pytest.raises(ValueError, match="the task of row 0 is nan"):
        Ridge().fit(X, Y, tasks=labels)
    with pytest.raises(ValueError, match="row 0: the group is missing"):
        Ridge().fit(X, Y, groups=labels)
    with pytest.raises(ValueError, match="expected the group of each of the 60 rows"):
        Ridge().fit(X, Y, groups=5)


@pytest.mark.parametrize("unit", ["timedelta64[s]", "datetime64[D]"])
def test_dates_and_durations_are_no_numbers(unit):
    model = Ridge().fit(X, Y, tasks=TASKS)
    times, gappy = np.arange(60).astype(unit), np.arange(60).astype(unit)
    gappy[3] = "NaT"
    with pytest.raises(ValueError, match="row 3: the target is missing"):
        Ridge().fit(X, gappy, tasks=TASKS)
    message = r"has values of type .*; expected numbers, such as days"
    frame = pd.DataFrame(X, columns=list("abcd"))
    for rows in (X, frame, frame.assign(ward=TASKS)):
        with pytest.raises(ValueError, match=f"^y {message}"):
            Ridge().fit(rows, pd.Series(times), tasks=TASKS)
    with pytest.raises(ValueError, match=f"^y {message}"):
        Ridge().fit(rows_by_task(X), rows_by_task(times))
    with pytest.raises(ValueError, match=f"^y {message}"):
        model.score(X, times, tasks=TASKS)
    with pytest.raises(ValueError, match=f"^sample_weight {message}"):
        Ridge().fit(X, Y, tasks=TASKS, sample_weight=times)
    rows = np.column_stack([times] * 4)
    for use in (TaskPCA().fit, model.predict):
        with pytest.raises(ValueError, match=f"^X {message}"):
            use(rows, tasks=TASKS)
    with pytest.raises(ValueError, match=f"^X of task 'west' {message}"):
        TaskPCA().fit({"west": rows})
    own = MTDA().fit({"west": frame[["a"]], "east": frame}, dict.fromkeys(["west", "east"], LABELS))
    with pytest.raises(ValueError, match="column 'a' has type"):
        own.predict(pd.DataFrame({"a": times}), tasks="west")


def test_missing_values_are_filled_as_in_jobs():
    gappy = X.copy()
    gappy[::7, 1] = np.nan
    estimator = Ridge().fit(gappy, Y, tasks=TASKS)
    assert np.isfinite(estimator.predict(gappy, tasks=TASKS)).all()
    assert estimator.model_.preparation.recipe.impute == "median"
    mean = Ridge(preparation={"impute": "mean"}).fit(gappy, Y, tasks=TASKS)
    assert mean.model_.preparation.recipe.impute == "mean"
    with pytest.raises(ValueError, match="every value must be a finite number"):
        Ridge().fit(X, Y, tasks=TASKS).predict(gappy, tasks=TASKS)


def test_importing_the_package_loads_nothing_heavy():
    heavy = "{'fastapi', 'distributed', 'sqlalchemy', 'numba', 'sklearn', 'pydantic', 'scipy'}"
    code = f"import sys, sibling; print({heavy} & sys.modules.keys())"
    assert run(code) == "set()"


def run(code):
    """Return the output of a program in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_one_estimator_loads_neither_the_other_algorithms_nor_numba():
    others = (
        "{'algorithms.rmtpca', 'algorithms.tlvm', 'algorithms.fmtl', 'algorithms.mtda', 'numba', "
        "'algorithms.baselines.boosted_trees', 'lightgbm', 'statsmodels', 'altair'}"
    )
    fit = "sibling.MTFL(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [1.0, 2.0, 2.0, 4.0])"
    code = f"import sys, sibling; {fit}; print({others} & sys.modules.keys())"
    assert run(code) == "set()"


@pytest.mark.slow
def test_numba_is_loaded_when_a_kernel_is_needed():
    made = "sibling.RMTPCA(k=1), sibling.FMTL(C=1.0), sibling.TLVM()"
    before = f"import sys, sibling; first, *_ = {made}; print('numba' in sys.modules)"
    rows = "[[0.0, 1.0], [2.0, 0.0], [1.0, 3.0], [4.0, 1.0]]"
    fit = f"first.fit({{'a': {rows}, 'b': {rows}[::-1][:3]}})"
    assert run(f"{before}; {fit}; print('numba' in sys.modules)").split() == ["False", "True"]


@pytest.mark.slow
def test_the_names_are_listed_without_importing_what_they_name():
    code = "import sys, sibling; print('MTFL' in dir(sibling), {'sklearn', 'algorithms.mtfl'} & "
    assert run(f"{code}sys.modules.keys())") == "True set()"


@pytest.mark.filterwarnings("ignore")  # the chosen C is at an end of so short a grid
def test_an_estimator_of_output_kernels_selects_c_unless_it_has_one() -> None:
    X = np.random.default_rng(0).normal(size=(24, 2))
    tasks = np.repeat(["a", "b"], 12)
    selected, given = (
        sibling.FMTL(grid=[0.5, 2.0], C=C).fit(X, X[:, 0], tasks=tasks) for C in (1.0, 0.7)
    )
    assert selected.model_.fit_info["params"]["C"] in (0.5, 2.0)
    assert given.model_.fit_info["params"]["C"] == 0.7
