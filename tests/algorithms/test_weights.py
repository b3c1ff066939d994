"""Weights of rows and of classes: laws, and scikit-learn's numbers."""

import numpy as np
import pytest
from sklearn import metrics as theirs
from sklearn.linear_model import LogisticRegression as TheirLogistic
from sklearn.linear_model import Ridge as TheirRidge
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_class_weight

from algorithms.baselines.mixed_model.covariance import Structure
from algorithms.baselines.mixed_model.likelihood import MixedModelProblem
from algorithms.evaluation import held_out_loss
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.weights import class_weights, scaled, weigh
from algorithms.numerics import scores
from algorithms.numerics.leave_one_out import leave_one_out_errors
from algorithms.numerics.ridge import ridge_regression
from algorithms.numerics.sparse_rows import as_canonical, column_statistics
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits, divide
from algorithms.wrappers.calibration.cross_fitting import cross_fit
from algorithms.wrappers.weights import WeightedAlgorithm

#: Sums of the same numbers in another order, some after the inversion of a matrix.
ROUNDING = 1e-9
#: Solutions of two iterative solvers.
SOLVER_RTOL = 1e-5
#: Decision values of two solvers of one machine, whose gap is 1e-10 here.
MACHINE_ATOL = 2e-4

#: Mean of the integer weights in every task.
MEAN = 2
#: Algorithms whose fits with integer weights are those with repeated rows: name, kind of targets,
#: parameters, and how the strength of the regularisation grows with the weights of mean 2, which
#: count as weights of mean 1.
PLAIN = {"scale_targets": "all"}
GIVEN = {"selection": "given"}
REPEATED = {
    "constant": ("constant", "numbers", {}, {}),
    "constant of classes": ("constant", "classes", {}, {}),
    "constant, pooled": ("constant", "classes", {"form": "pooled"}, {}),
    "ridge": ("ridge", "numbers", {**PLAIN, **GIVEN, "gamma": 1.0}, {"gamma": 2.0}),
    "ridge by loo": ("ridge", "numbers", {**PLAIN, "grid": [0.1, 1, 10]}, {"grid": [0.2, 2, 20]}),
    "ridge per task": (
        "ridge",
        "numbers",
        {**PLAIN, "selection_scope": "task", "grid": [0.1, 1, 10]},
        {"grid": [0.2, 2, 20]},
    ),
    "ridge, pooled": (
        "ridge",
        "numbers",
        {**PLAIN, "form": "pooled", "intercept": "common", "grid": [0.1, 1, 10]},
        {"grid": [0.2, 2, 20]},
    ),
    "ridge without intercept": (
        "ridge",
        "classes",
        {**PLAIN, "fit_intercept": False, "grid": [0.1, 1, 10]},
        {"grid": [0.2, 2, 20]},
    ),
    "kernel-ridge": (
        "kernel-ridge",
        "numbers",
        {**PLAIN, "grid": [0.1, 1, 10]},
        {"grid": [0.2, 2, 20]},
    ),
    "mean-regularised": (
        "mean-regularised",
        "numbers",
        {**PLAIN, "grid": [0.1, 1, 10]},
        {"grid": [0.2, 2, 20]},
    ),
    "mean-regularised without unrelated tasks": (
        "mean-regularised",
        "numbers",
        {**PLAIN, "grid": [0.1, 1, 10], "unrelated": "leave-out"},
        {"grid": [0.2, 2, 20]},
    ),
    "logistic-regression": (
        "logistic-regression",
        "classes",
        {**GIVEN, "gamma": 1.0},
        {"gamma": 2.0},
    ),
    "shared-lasso": ("shared-lasso", "numbers", {**PLAIN, **GIVEN, "tolerance": 1e-10}, {}),
    "cmtl": (
        "cmtl",
        "numbers",
        {**PLAIN, **GIVEN, "gamma": 1.0, "tolerance": 1e-12},
        {"gamma": 2.0},
    ),
    "gmtl": (
        "gmtl",
        "numbers",
        {**PLAIN, **GIVEN, "gamma": 1.0, "n_groups": 1, "tolerance": 1e-12},
        {"gamma": 2.0},
    ),
    **{
        f"{name}, {kind}": (
            name,
            kind,
            {**PLAIN, **GIVEN, "C": 0.25, "tolerance": 1e-9, "max_iter": 100_000},
            {"C": 0.125},
        )
        for name in ("kernel-tasks", "kernel-scaled", "kernel-mean", "kernel-graph", "fmtl")
        for kind in ("numbers", "classes")
    },
    "kernel-tasks, balanced": (
        "kernel-tasks",
        "classes",
        {**GIVEN, "C": 0.25, "class_weight": "balanced", "tolerance": 1e-9, "loss": "logistic"},
        {"C": 0.125},
    ),
    **{
        f"mtfl, {name}": (
            "mtfl",
            kind,
            {**PLAIN, **GIVEN, "gamma_scale": "absolute", "gamma": 1.0, "tolerance": 1e-8, **own},
            {"gamma": 2.0},
        )
        for name, kind, own in (
            ("squared", "numbers", {}),
            ("selected", "numbers", {"features": "selected"}),
            ("logistic", "classes", {"loss": "logistic"}),
            ("hinge", "classes", {"loss": "hinge"}),
        )
    },
    "mtfl by loo": (
        "mtfl",
        "numbers",
        {
            **PLAIN,
            "selection": "loo",
            "tolerance": 1e-8,
            "gamma_scale": "absolute",
            "grid": [1.0, 10.0],
        },
        {"grid": [2.0, 20.0]},
    ),
    "mtrl": (
        "mtrl",
        "numbers",
        {**PLAIN, **GIVEN, "C": 0.25, "tolerance": 1e-4, "max_iter": 1000},
        {"C": 0.125},
    ),
    **{
        name: (name, "classes", GIVEN, {})
        for name in ("mtda", "lda-rt", "lda-tr", "lda-null", "aggregate", "pca-classifier")
    },
}


def weighted_tasks(kind: str, *, seed: int = 0) -> tuple[TaskSet, TaskSet]:
    """Return tasks with integer weights, and tasks with their rows repeated so often."""
    rng = np.random.default_rng(seed)
    tasks, repeated = [], []
    for i in range(3):
        X = rng.standard_normal((30, 4))
        f = X @ rng.standard_normal(4) + 0.5 * rng.standard_normal(30)
        y = f if kind == "numbers" else np.where(f > 0, "a", "b")
        w = rng.permutation(np.repeat([1, 2 * MEAN - 1], 15))
        rows = np.repeat(np.arange(30), w)
        tasks.append(Task.from_rows(f"t{i}", X, y=y, weights=w))
        repeated.append(Task.from_rows(f"t{i}", X[rows], y=y[rows]))
    return TaskSet(tuple(tasks)), TaskSet(tuple(repeated))


def fit(name: str, tasks: TaskSet, **values):
    algorithm = ALGORITHMS[name]
    weighted = WeightedAlgorithm(algorithm, None)
    return weighted.fit(tasks, algorithm.parse(values), trace=Trace(), rng=np.random.default_rng(0))


@pytest.mark.parametrize(("name", "kind", "values", "repeated"), REPEATED.values(), ids=REPEATED)
def test_integer_weights_equal_repeated_rows(name, kind, values, repeated) -> None:
    tasks, with_repetition = weighted_tasks(kind)
    ours = fit(name, tasks, **values)
    others = fit(name, with_repetition, **{**values, **repeated})
    X = np.random.default_rng(1).standard_normal((20, 4))
    method = "predict" if kind == "numbers" else "decision_function"
    method = method if method in ours.available_methods() else "distances"
    tolerance = max(ROUNDING, 10 * np.sqrt(values.get("tolerance", 0.0)))
    for task in ours.tasks:
        found, expected = (getattr(model, method)(X, task=task) for model in (ours, others))
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    for metric, values_by_task in ours.metrics.items():
        for task, value in values_by_task.items():
            expected = others.metrics[metric][task]
            assert value == pytest.approx(expected, rel=tolerance, abs=tolerance)


OF_FOLDS = {
    case: (name, kind, values, repeated)
    for case, (name, kind, values, repeated) in REPEATED.items()
    if "grid" not in values
}


@pytest.mark.parametrize(("name", "kind", "values", "repeated"), OF_FOLDS.values(), ids=OF_FOLDS)
def test_integer_weights_equal_repeated_rows_in_a_fold(name, kind, values, repeated) -> None:
    # a selection balances rows, not weights, over its folds: so here is one fold for both
    tasks, others = weighted_tasks(kind)
    algorithm, losses = ALGORITHMS[name], []
    for every, changed in ((weigh(tasks), {}), (others, repeated)):
        split = divide(every, {task.name: task.X[:, 0] > 0.5 for task in every})
        params = algorithm.parse({**values, **changed})
        fold = algorithm.prepare_fold(split.train, split.test, params, rng=np.random.default_rng(0))
        losses.append(held_out_loss({})(fold.fit(params, Trace()), fold.test))
    tolerance = max(ROUNDING, 10 * np.sqrt(values.get("tolerance", 0.0)))
    assert losses[0] == pytest.approx(losses[1], rel=tolerance)


def test_every_algorithm_with_weights_has_a_law_of_repeated_rows_or_another_test() -> None:
    # weights of the noise, below; the least number of rows of a leaf counts rows, and so do folds
    own = {"gp", "mixed-model", "boosted-trees", "ensemble"}
    assert {name for name, *_ in REPEATED.values()} | own == {
        name for name, algorithm in ALGORITHMS.items() if algorithm.needs.weights
    }


@pytest.mark.slow  # two races
def test_an_ensemble_follows_the_rows_of_large_weights() -> None:
    rng = np.random.default_rng(4)
    X, sign = rng.standard_normal((6, 30, 2)), np.tile([1.0, -1.0], 15)
    for wanted in (1.0, -1.0):
        tasks = TaskSet(
            tuple(
                Task.from_rows(
                    f"t{t}", x, y=sign * x[:, 0], weights=np.where(sign == wanted, 1.0, 1e-3)
                )
                for t, x in enumerate(X)
            )
        )
        model = fit("ensemble", tasks)
        predicted = np.concatenate([model.predict(x, task=f"t{t}") for t, x in enumerate(X)])
        assert np.corrcoef(predicted, wanted * np.concatenate(X)[:, 0])[0, 1] > 0.9


def test_ridge_is_that_of_scikit_learn() -> None:
    tasks, _ = weighted_tasks("numbers")
    model = fit("ridge", tasks, selection="given", gamma=3.0, standardise="none", **PLAIN)
    for task in tasks:
        other = TheirRidge(alpha=model.fit_info["ridge"]).fit(
            task.X, task.y, sample_weight=scaled(task.weights)
        )
        np.testing.assert_allclose(
            model.predict(task.X, task=task.name), other.predict(task.X), rtol=ROUNDING
        )
        score = other.score(task.X, task.y, sample_weight=task.weights)
        assert model.metrics["r2"][task.name] == pytest.approx(score, rel=ROUNDING)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 2.0, "b": 0.5}])
def test_logistic_regression_is_that_of_scikit_learn(class_weight) -> None:
    tasks, _ = weighted_tasks("classes")
    algorithm = ALGORITHMS["logistic-regression"]
    params = algorithm.parse({"selection": "given", "gamma": 3.0, "standardise": "none"})
    model = WeightedAlgorithm(algorithm, class_weight).fit(
        tasks, params, trace=Trace(), rng=np.random.default_rng(0)
    )
    for task in tasks:
        weights = task.weights
        if class_weight is not None:
            own = class_weight
            if class_weight == "balanced":  # their counts have no weights
                repeated = np.repeat(task.y, task.weights.astype(int))
                own = dict(
                    zip("ab", compute_class_weight("balanced", classes=np.array(["a", "b"]),
                                                   y=repeated), strict=True)
                )  # fmt: skip
            weights = weights * np.array([own[label] for label in task.y])
        other = TheirLogistic(C=1 / (2 * model.fit_info["ridge"]), tol=1e-10, max_iter=10_000)
        other.fit(task.X, task.y, sample_weight=scaled(weights))
        np.testing.assert_allclose(
            model.decision_function(task.X, task=task.name),
            other.decision_function(task.X),
            rtol=SOLVER_RTOL,
            atol=SOLVER_RTOL,
        )


@pytest.mark.parametrize("class_weight", [None, {"a": 2.0, "b": 0.5}])
@pytest.mark.parametrize(("loss", "factor"), [("hinge", 1.0), ("squared-hinge", 0.5)])
def test_a_support_vector_machine_is_that_of_scikit_learn(class_weight, loss, factor) -> None:
    tasks, _ = weighted_tasks("classes")
    algorithm = ALGORITHMS["kernel-tasks"]
    values = {"kernel": "linear", "scale": "absolute", "standardise": "none", "loss": loss}
    params = algorithm.parse({**values, **GIVEN, "C": 0.5, "tolerance": 1e-10, "max_iter": 100_000})
    model = WeightedAlgorithm(algorithm, class_weight).fit(
        tasks, params, trace=Trace(), rng=np.random.default_rng(0)
    )
    for task in weigh(tasks, class_weight):
        A = np.column_stack([task.X, np.ones(task.n_samples)])  # the intercept is penalised
        other = LinearSVC(
            C=0.5 * factor, loss=loss.replace("-", "_"), fit_intercept=False, dual=True, tol=1e-10,
            max_iter=1_000_000,
        ).fit(A, task.y, sample_weight=task.weights)  # fmt: skip
        np.testing.assert_allclose(
            model.decision_function(task.X, task=task.name),
            other.decision_function(A),
            atol=MACHINE_ATOL,
        )


@pytest.mark.parametrize(("n", "p"), [(12, 3), (8, 20)])
@pytest.mark.parametrize("has_intercept", [True, False])
def test_leave_one_out_errors_are_those_of_fits_without_the_rows(n, p, has_intercept) -> None:
    rng = np.random.default_rng(2)
    X, y, w = rng.standard_normal((n, p)), rng.standard_normal((n, 1)), rng.uniform(0.2, 3.0, n)
    unit = np.arange(n) // 2  # pairs of rows are left out together
    found = leave_one_out_errors(X, y, ridge=0.7, has_intercept=has_intercept, unit=unit, weights=w)
    for u in np.unique(unit):
        own, rest = unit == u, unit != u
        V, b = ridge_regression(
            X[rest], y[rest], ridge=0.7, has_intercept=has_intercept, weights=w[rest]
        )
        errors = y[own] - X[own] @ V - b
        np.testing.assert_allclose(
            found[own], np.sqrt(w[own])[:, np.newaxis] * errors, rtol=ROUNDING, atol=ROUNDING
        )


def test_the_likelihood_of_a_mixed_model_is_that_of_noise_with_variance_by_weight() -> None:
    tasks, _ = weighted_tasks("numbers")
    weights = [scaled(task.weights) for task in tasks]
    problem = MixedModelProblem.of(
        [task.X for task in tasks], [task.y for task in tasks], has_slopes=True, weights=weights
    )
    values = []
    for size in (0.3, 1.7):
        z = Structure.of("shared", problem.n_effects).start() + np.log(size)
        structure = Structure.of("shared", problem.n_effects)
        values.append((problem.objective(z, structure)[0], structure.matrix(z)))
    expected = [_restricted_likelihood(tasks, weights, Psi) for _, Psi in values]
    # up to a constant
    assert values[0][0] - values[1][0] == pytest.approx(expected[0] - expected[1], rel=1e-7)


def _restricted_likelihood(tasks: TaskSet, weights, Psi) -> float:
    """Return −log L of all rows at once, with the covariance matrix of the targets."""
    A = [np.column_stack([np.ones(len(task.X)), task.X]) for task in tasks]
    n = sum(map(len, A))
    V, first = np.zeros((n, n)), 0
    for Z, w in zip(A, weights, strict=True):
        own = slice(first, first + len(Z))
        V[own, own] = Z @ Psi @ Z.T + np.diag(1 / w)
        first += len(Z)
    A, y, inverse = np.concatenate(A), np.concatenate([task.y for task in tasks]), np.linalg.inv(V)
    M = A.T @ inverse @ A
    r = y - A @ np.linalg.solve(M, A.T @ inverse @ y)
    freedom = n - A.shape[1]
    noise = r @ inverse @ r / freedom
    determinants = np.linalg.slogdet(V).logabsdet + np.linalg.slogdet(M).logabsdet
    return float(0.5 * (freedom * np.log(noise) + determinants))


def test_weights_of_a_fit_have_mean_one_in_each_task_and_rows_of_weight_zero_are_left_out() -> None:
    X = np.arange(8.0).reshape(4, 2)
    tasks = TaskSet(
        (
            Task.from_rows("a", X, weights=[0, 1, 2, 3]),
            Task.from_rows("b", X, weights=[5, 5, 5, 5]),
            Task.from_rows("c", X),
        )
    )
    a, b, c = weigh(tasks)
    np.testing.assert_allclose(a.weights, [0.5, 1.0, 1.5])
    np.testing.assert_array_equal(a.X, X[1:])
    assert b.weights is None
    assert c.weights is None
    nothing = TaskSet((Task.from_rows("d", X, weights=[0, 0, 0, 0]),))
    with pytest.raises(InvalidData, match="the training rows of task 'd' are all zero"):
        weigh(nothing)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"has 4 rows but weights of shape \(2,\)"),
        ([1, 1, -1, 1], "row 2: the weight is -1, expected 0 or a positive number"),
        ([1, 1, np.nan, 1], "row 2: the weight is nan"),
        ([1, np.inf, 1, 1], "row 1: the weight is inf"),
        ([0, 0, 0, 0], "the weights of task 'a' are all zero; give some rows a positive weight"),
        (["x", "x", "x", "x"], "needs weights that are numbers"),
    ],
)
def test_invalid_weights_are_reported_with_task_and_row(weights, message) -> None:
    with pytest.raises(InvalidData, match=message):
        Task.from_rows("a", np.ones((4, 2)), y=np.arange(4.0), weights=weights)


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    y = np.array(["a"] * 7 + ["b"] * 2 + ["c"])
    expected = compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=y)
    found = class_weights(y, np.ones(10), "balanced")
    np.testing.assert_allclose(found[[0, 7, 9]], expected)
    weighted = class_weights(y, np.arange(10.0) + 1, "balanced") * (np.arange(10.0) + 1)
    sums = [weighted[y == label].sum() for label in "abc"]
    np.testing.assert_allclose(sums, sums[0])


def test_class_weights_that_do_not_suit_the_tasks_are_rejected() -> None:
    numbers, _ = weighted_tasks("numbers")
    classes, _ = weighted_tasks("classes")
    with pytest.raises(InvalidData, match="task 't0' has no classes, which class weights need"):
        weigh(numbers, "balanced")
    with pytest.raises(InvalidData, match=r"names the class 'q', which no task has"):
        weigh(classes, {"q": 2.0})


def test_class_weights_of_a_fold_follow_from_its_training_rows() -> None:
    tasks, _ = weighted_tasks("classes")
    algorithm = ALGORITHMS["logistic-regression"]
    balanced = WeightedAlgorithm(algorithm, "balanced")
    params = algorithm.parse({"selection": "given"})
    found = cross_fit(
        balanced, tasks, params, n_folds=3, trace=Trace(), rng=np.random.default_rng(3)
    )
    for fold, model in enumerate(found.models):
        split = divide(tasks, {name: own == fold for name, own in found.fold_of.items()})
        alone = algorithm.fit(
            weigh(split.train, "balanced"), params, trace=Trace(), rng=np.random.default_rng(0)
        )
        np.testing.assert_array_equal(model.functions.W, alone.functions.W)


def test_rows_of_weight_zero_are_never_held_out_and_move_no_other_row() -> None:
    rng = np.random.default_rng(5)
    X, w = rng.standard_normal((20, 2)), np.where(np.arange(20) % 3, 1.5, 0.0)
    whole = TaskSet((Task.from_rows("a", X, weights=w),))
    kept = TaskSet((Task.from_rows("a", X[w > 0], weights=w[w > 0]),))
    for splits in (Splits(n_folds=3, repeats=2), Splits(scheme="holdout", n_splits=3)):
        indices = range(splits.count())
        pairs = zip(
            splits.held_out(whole, indices, seed=1),
            splits.held_out(kept, indices, seed=1),
            strict=True,
        )
        for ours, theirs_ in pairs:
            assert not ours["a"][w == 0].any()
            np.testing.assert_array_equal(ours["a"][w > 0], theirs_["a"])


RNG = np.random.default_rng(6)
TRUTH, GUESS = RNG.standard_normal(40), RNG.standard_normal(40).round(1)
CLASSES = RNG.integers(0, 3, 40)
PROBABILITIES = RNG.dirichlet(np.ones(3), 40)
WEIGHTS = RNG.uniform(0, 3, 40)
ONE_HOT = CLASSES[:, np.newaxis] == np.arange(3)


@pytest.mark.parametrize(
    ("found", "expected"),
    {
        "error rate": (
            scores.error_rate(CLASSES, CLASSES[::-1], WEIGHTS),
            1 - theirs.accuracy_score(CLASSES, CLASSES[::-1], sample_weight=WEIGHTS),
        ),
        "auc": (
            scores.auc(ONE_HOT[:, :1], GUESS[:, np.newaxis], WEIGHTS),
            theirs.roc_auc_score(ONE_HOT[:, 0], GUESS, sample_weight=WEIGHTS),
        ),
        "auc of several classes": (
            scores.auc(ONE_HOT, PROBABILITIES, WEIGHTS),
            theirs.roc_auc_score(CLASSES, PROBABILITIES, multi_class="ovr", sample_weight=WEIGHTS),
        ),
        "rmse": (
            scores.rmse(TRUTH, GUESS, WEIGHTS),
            theirs.root_mean_squared_error(TRUTH, GUESS, sample_weight=WEIGHTS),
        ),
        "r2": (
            scores.r2(TRUTH, GUESS, WEIGHTS),
            theirs.r2_score(TRUTH, GUESS, sample_weight=WEIGHTS),
        ),
        "explained variance": (
            scores.explained_variance(TRUTH, GUESS, WEIGHTS),
            theirs.explained_variance_score(TRUTH, GUESS, sample_weight=WEIGHTS),
        ),
        "log loss": (
            METRICS["log_loss"].measure(None, scores.log_losses(PROBABILITIES, CLASSES), WEIGHTS),
            theirs.log_loss(CLASSES, PROBABILITIES, sample_weight=WEIGHTS),
        ),
        "brier": (
            METRICS["brier"].measure(
                None, scores.brier_losses(PROBABILITIES[:, :2], CLASSES % 2), WEIGHTS
            ),
            np.average(
                ((PROBABILITIES[:, :2] - np.eye(2)[CLASSES % 2]) ** 2).sum(axis=1) / 2,
                weights=WEIGHTS,
            ),
        ),
    }.values(),
)
def test_metrics_are_those_of_scikit_learn(found, expected) -> None:
    assert found == pytest.approx(expected, rel=ROUNDING)


def test_statistics_of_sparse_columns_are_those_of_dense_ones() -> None:
    rng = np.random.default_rng(7)
    X = np.where(rng.random((30, 5)) < 0.4, rng.standard_normal((30, 5)), 0.0)
    X[:, 4] = 1.0 + rng.random(30)
    w = rng.uniform(0.1, 2.0, 30)
    from scipy.sparse import csr_array

    found = column_statistics(as_canonical(csr_array(X)), w)
    mean = np.average(X, axis=0, weights=w)
    np.testing.assert_allclose(found.mean, mean, rtol=ROUNDING)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    np.testing.assert_allclose(found.deviation, deviation, rtol=ROUNDING)
