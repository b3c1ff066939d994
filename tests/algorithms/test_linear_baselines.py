import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge as OtherKernelRidge
from sklearn.linear_model import LogisticRegression as OtherLogistic
from sklearn.linear_model import MultiTaskLasso
from sklearn.linear_model import Ridge as OtherRidge
from sklearn.model_selection import LeaveOneOut, cross_val_score

from algorithms.baselines.linear import (
    KernelRidge,
    LogisticRegression,
    MeanRegularised,
    Ridge,
    SharedLasso,
)
from algorithms.evaluation import fold_splits
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.units import units_of
from algorithms.numerics.leave_one_out import leave_one_out_errors

#: Answers of two exact solvers.
EXACT_ATOL = 1e-8
#: Answers of two iterative solvers.
ITERATED_ATOL = 1e-4

ROWS = np.random.default_rng(99).standard_normal((6, 4))


def made(seed=0, *, n_tasks=4, d=4, n=14, classes=False, spread=0.5) -> TaskSet:
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    tasks = []
    for t in range(n_tasks):
        X = rng.standard_normal((n + t, d)) + 1.0
        y = X @ (w + spread * rng.standard_normal(d)) + rng.standard_normal(n + t) + t
        tasks.append(
            Task.from_rows(f"t{t}", X, y=np.where(y > np.median(y), "b", "a") if classes else y)
        )
    return TaskSet(tuple(tasks))


def fit(algorithm, tasks, **values):
    plain = {"selection": "given", "standardise": "none", "scale_targets": "none"}
    known = {name: plain[name] for name in plain if name in algorithm.Params.model_fields}
    params = algorithm.Params(**{**known, **values})
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def union(tasks):
    ordered = sorted(tasks, key=lambda task: task.name)
    return np.concatenate([t.X for t in ordered]), np.concatenate([t.y for t in ordered])


@pytest.mark.parametrize("has_intercept", [True, False])
def test_ridge_is_that_of_scikit_learn(has_intercept) -> None:
    tasks = made(1)
    model = fit(Ridge(), tasks, gamma=2.0, fit_intercept=has_intercept)
    for task in tasks:
        other = OtherRidge(alpha=model.fit_info["ridge"], fit_intercept=has_intercept)
        expected = other.fit(task.X, task.y).predict(ROWS)
        np.testing.assert_allclose(model.predict(ROWS, task=task.name), expected, atol=EXACT_ATOL)


def test_the_objective_of_ridge_is_that_of_scikit_learns_solution() -> None:
    tasks, plain = made(1), {"selection": "given", "standardise": "none", "scale_targets": "none"}

    def objectives(gamma):
        """Return the objective that the trace records, and that of scikit-learn's solution."""
        trace, expected = Trace(), 0.0
        params = Ridge.Params(**plain, gamma=gamma, fit_intercept=False)
        model = Ridge().fit(tasks, params, trace=trace, rng=np.random.default_rng(0))
        alpha = model.fit_info["ridge"]
        for task in tasks:
            w = OtherRidge(alpha=alpha, fit_intercept=False).fit(task.X, task.y).coef_
            expected += np.sum((task.y - task.X @ w) ** 2) + alpha * np.sum(w**2)
        return np.array([trace.history[-1].objective, expected])

    found, expected = objectives(20.0) / objectives(0.1)  # the unit of the targets cancels
    assert found == pytest.approx(expected)
    assert expected > 2


def test_pooled_ridge_is_one_ridge_on_all_rows() -> None:
    tasks = made(2)
    model = fit(Ridge(), tasks, gamma=2.0, form="pooled", intercept="common")
    expected = OtherRidge(alpha=model.fit_info["ridge"]).fit(*union(tasks)).predict(ROWS)
    for task in tasks:
        np.testing.assert_allclose(model.predict(ROWS, task=task.name), expected, atol=EXACT_ATOL)


@pytest.mark.parametrize("how", ["task", "moderated"])
def test_pooled_ridge_is_one_function_whatever_the_scales(how) -> None:
    tasks = TaskSet(tuple(Task(t.name, t.X, "rows", 9.0**i * t.y) for i, t in enumerate(made(17))))
    values = {"form": "pooled", "intercept": "common", "scale_targets": how}
    model = fit(Ridge(), tasks, gamma=2.0, **values)
    expected = OtherRidge(alpha=model.fit_info["ridge"]).fit(*union(tasks)).predict(ROWS)
    new = Ridge().adapt(model, Task("new", ROWS, "rows", 1e3 * np.arange(len(ROWS))))
    for task in (*tasks.names, "new"):
        np.testing.assert_allclose(new.predict(ROWS, task=task), expected, rtol=1e-8)


@pytest.mark.parametrize("form", ["task", "pooled"])
def test_kernel_ridge_is_that_of_scikit_learn(form) -> None:
    tasks = made(3)
    values = {"gamma": 0.1, "width": 0.7, "form": form, "fit_intercept": False}
    model = fit(KernelRidge(), tasks, **values)
    for task in tasks:
        X, y = (task.X, task.y) if form == "task" else union(tasks)
        other = OtherKernelRidge(
            alpha=model.fit_info["ridge"], kernel="rbf", gamma=1 / (2 * 4 * 0.7**2)
        )
        expected = other.fit(X, y).predict(ROWS)
        np.testing.assert_allclose(model.predict(ROWS, task=task.name), expected, atol=1e-6)


def grouped(tasks: TaskSet) -> TaskSet:
    """Return the tasks with rows that belong together, in one task and in two."""
    tied = ({0: "a", 1: "a"}, {0: "a", 2: "b", 3: "b"}, {})
    made = []
    for task, some in zip(tasks, tied, strict=True):
        groups = [some.get(i, f"{task.name} {i}") for i in range(task.n_samples)]
        made.append(Task.from_rows(task.name, task.X, y=task.y, groups=groups))
    return TaskSet(tuple(made))


@pytest.mark.parametrize("form", ["task", "pooled", "mean"])
@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("has_groups", [False, True])
@pytest.mark.quick(5)
def test_leave_one_out_errors_equal_those_of_separate_fits(form, has_intercept, has_groups) -> None:
    tasks = made(4, n_tasks=3, n=5)
    tasks = grouped(tasks) if has_groups else tasks
    algorithm = MeanRegularised() if form == "mean" else Ridge()
    values = {"fit_intercept": has_intercept} | ({} if form == "mean" else {"form": form})
    units = units_of(tasks)
    if algorithm.name == "mean-regularised":
        values["common_grid"] = (0.2,)
    grid = (0.1, 3.0)
    chosen = fit(algorithm, tasks, selection="loo", grid=grid, **values)
    for gamma, found in zip(
        chosen.fit_info["selection_gammas"], chosen.fit_info["selection_errors"], strict=True
    ):
        # the unit of gamma changes with the rows: undo it
        unit = fit(algorithm, tasks, gamma=1.0, **values).fit_info["ridge"]
        squares = []
        for task in tasks:
            for i in range(task.n_samples):
                left_out = units.of(task.name)[i]  # tasks that are learned apart keep their rows
                rest = [
                    t.take(np.flatnonzero(units.of(t.name) != left_out))
                    if t.name == task.name or form != "task"
                    else t
                    for t in tasks
                ]
                inner = TaskSet(tuple(rest))
                scale = fit(algorithm, inner, gamma=1.0, **values).fit_info["ridge"]
                if algorithm.name == "mean-regularised":
                    values["common_share"] = 0.2
                model = fit(algorithm, inner, gamma=gamma * unit / scale, **values)
                squares.append((model.predict(task.X[[i]], task=task.name)[0] - task.y[i]) ** 2)
        assert found == pytest.approx(np.mean(squares), rel=1e-9)


@pytest.mark.parametrize("p", [3, 40])
@pytest.mark.parametrize("has_intercept", [True, False])
def test_units_of_equal_size_together_have_the_errors_of_each_alone(p, has_intercept) -> None:
    rng = np.random.default_rng(6)
    A, Y = rng.normal(size=(30, p)), rng.normal(size=(30, 2))
    unit = rng.permutation(np.repeat(np.arange(14), [1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4]))
    found = leave_one_out_errors(A, Y, ridge=0.7, has_intercept=has_intercept, unit=unit)
    if has_intercept:
        A, Y = A - A.mean(axis=0), Y - Y.mean(axis=0)
    H = A @ np.linalg.solve(A.T @ A + 0.7 * np.eye(p), A.T) + has_intercept / 30
    for which in range(14):
        rows = np.flatnonzero(unit == which)
        block = np.eye(len(rows)) - H[np.ix_(rows, rows)]
        expected = np.linalg.solve(block, (Y - H @ Y)[rows])
        np.testing.assert_allclose(found[rows], expected, rtol=1e-9)


def test_a_unit_of_all_rows_has_no_error_and_others_do() -> None:
    A, Y = np.diag([1.0, 1.0, 1.0, 0.0, 0.0]), np.ones((5, 1))
    unit = np.array([0, 0, 1, 2, 2])
    found = leave_one_out_errors(A, Y, ridge=1e-14, has_intercept=False, unit=unit)
    assert np.isnan(found[:3]).all()
    np.testing.assert_allclose(found[3:], 1.0)


def test_mean_regularised_minimises_its_objective() -> None:
    tasks = made(5, n_tasks=3)
    model = fit(MeanRegularised(), tasks, gamma=1.5, common_share=0.3)
    gamma, mu = model.fit_info["ridge"], model.fit_info["common_ridge"]

    def objective(x):
        w_0, V, b = x[:4], x[4:16].reshape(3, 4), x[16:]
        errors = [t.y - t.X @ (w_0 + v) - c for t, v, c in zip(tasks, V, b, strict=True)]
        return sum(np.sum(e**2) for e in errors) + gamma * np.sum(V**2) + mu * np.sum(w_0**2)

    best = minimize(objective, np.zeros(19), tol=1e-12)
    w_0, V = best.x[:4], best.x[4:16].reshape(3, 4)
    np.testing.assert_allclose(model.functions.W.T, w_0 + V, atol=ITERATED_ATOL)
    np.testing.assert_allclose(model.fit_info["common"], w_0, atol=ITERATED_ATOL)


def test_mean_regularised_is_ridge_where_nothing_is_common() -> None:
    tasks = made(6)
    apart = fit(MeanRegularised(), tasks, gamma=1.0, common_share=1e6)
    ridge = fit(Ridge(), tasks, gamma=1.0)
    np.testing.assert_allclose(apart.functions.W, ridge.functions.W, atol=1e-4)


def test_the_shared_lasso_is_that_of_scikit_learn_on_shared_rows() -> None:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((30, 8))
    W = rng.standard_normal((8, 3)) * (np.arange(8) < 3)[:, None]
    Y = X @ W + 0.1 * rng.standard_normal((30, 3))
    tasks = TaskSet(tuple(Task.from_rows(f"t{t}", X, y=Y[:, t]) for t in range(3)))
    model = fit(SharedLasso(), tasks, share=0.05, tolerance=1e-10)
    other = MultiTaskLasso(alpha=model.fit_info["lambda"] / 60, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(model.functions.W, other.coef_.T, atol=ITERATED_ATOL)
    assert model.fit_info["n_columns"] == np.sum(np.any(other.coef_ != 0, axis=0)) == 3


def test_the_shared_lasso_leaves_no_column_at_share_one() -> None:
    assert fit(SharedLasso(), made(8), share=1.0).fit_info["n_columns"] == 0
    assert fit(SharedLasso(), made(8), share=0.9).fit_info["n_columns"] >= 1


@pytest.mark.parametrize("standardise", ["none", "features"])
def test_the_shared_lasso_ignores_constant_columns(standardise) -> None:
    rng = np.random.default_rng(13)
    # the mean of as many tenths is no tenth: what rounding leaves must not become a column
    tasks = TaskSet(
        tuple(
            Task.from_rows(f"t{t}", np.full((9, 4), 0.1 * (t + 1)), y=rng.standard_normal(9))
            for t in range(3)
        )
    )
    trace = Trace()
    params = SharedLasso.Params(selection="given", standardise=standardise)
    model = SharedLasso().fit(tasks, params, trace=trace, rng=rng)
    assert len(trace.history) <= 1
    assert model.fit_info["relative_gap"] <= params.tolerance
    assert (model.fit_info["n_columns"], model.warnings) == (0, ())
    for task in tasks:
        np.testing.assert_allclose(model.predict(ROWS, task=task.name), task.y.mean(), rtol=1e-12)


@pytest.mark.parametrize("algorithm", [SharedLasso(), Ridge(), MeanRegularised()])
def test_a_constant_column_changes_nothing(algorithm) -> None:
    tasks = made(14)
    wider = TaskSet(
        tuple(
            Task.from_rows(t.name, np.column_stack([t.X, np.full(t.n_samples, 1e12 + 0.1)]), y=t.y)
            for t in tasks
        )
    )
    # the unit of gamma is the mean variance of a column, of which there is one more
    strength = {} if algorithm.name == "shared-lasso" else {"gamma": 1.0}
    more = {name: value * 5 / 4 for name, value in strength.items()}
    plain, other = fit(algorithm, tasks, **strength), fit(algorithm, wider, **more)
    rows = np.column_stack([ROWS, np.full(len(ROWS), 1e12 + 0.1)])
    for task in tasks:
        np.testing.assert_allclose(
            other.predict(rows, task=task.name), plain.predict(ROWS, task=task.name), rtol=1e-3
        )


@pytest.mark.parametrize("form", ["task", "pooled"])
@pytest.mark.parametrize("has_intercept", [True, False])
def test_logistic_regression_is_that_of_scikit_learn(form, has_intercept) -> None:
    tasks = made(9, classes=True)
    values = {"form": form, "fit_intercept": has_intercept, "intercept": "common"}
    model = fit(LogisticRegression(), tasks, gamma=0.5, **values)
    for task in tasks:
        X, y = (task.X, task.y) if form == "task" else union(tasks)
        other = OtherLogistic(
            C=1 / (2 * model.fit_info["ridge"]),
            fit_intercept=has_intercept,
            tol=1e-10,
            max_iter=10_000,
        ).fit(X, y)
        np.testing.assert_allclose(
            model.decision_function(ROWS, task=task.name),
            other.decision_function(ROWS),
            atol=ITERATED_ATOL,
        )


def test_logistic_regression_of_classes_of_equal_means_takes_no_step() -> None:
    # both classes hold each row and its negative: the gradient is 0 where all coefficients are
    X = np.concatenate([ROWS, -ROWS, 2 * ROWS, -2 * ROWS])
    tasks = TaskSet((Task.from_rows("t", X, y=["a"] * 12 + ["b"] * 12),))
    trace = Trace()
    params = LogisticRegression.Params(selection="given", standardise="none")
    model = LogisticRegression().fit(tasks, params, trace=trace, rng=np.random.default_rng(0))
    assert ([step.iteration for step in trace.history], trace.stop_reason) == ([0], "converged")
    np.testing.assert_array_equal(model.decision_function(ROWS, task="t"), 0.0)


@pytest.mark.parametrize("algorithm", [Ridge(), LogisticRegression(), MeanRegularised()])
def test_adapting_to_a_task_of_the_fit_gives_the_same_weights(algorithm) -> None:
    classes = algorithm.needs.target == "classes"
    tasks = made(10, classes=classes)
    model = fit(algorithm, tasks)
    old = tasks["t1"]
    adapted = algorithm.adapt(model, Task("twin", old.X, "rows", old.y))
    np.testing.assert_allclose(
        adapted.decision_function(ROWS, task="twin"),
        model.decision_function(ROWS, task="t1"),
        atol=1e-6,
    )


def test_more_than_two_classes_are_one_against_the_rest() -> None:
    rng = np.random.default_rng(11)
    labels = np.arange(30) % 3
    X = 4 * rng.standard_normal((3, 4))[labels] + rng.standard_normal((30, 4))
    tasks = TaskSet((Task.from_rows("t", X, y=labels), Task.from_rows("u", X, y=labels)))
    for algorithm in (Ridge(), LogisticRegression(), SharedLasso()):
        model = fit(algorithm, tasks)
        assert model.decision_function(X, task="t").shape == (30, 3)
        assert model.metrics["accuracy"]["t"] > 0.9
    with pytest.raises(InvalidData, match="'t' has 3 classes"):
        fit(MeanRegularised(), tasks)


@pytest.mark.parametrize("algorithm", [Ridge(), MeanRegularised()])
def test_gamma_is_in_units_of_the_mean_variance_of_a_column(algorithm) -> None:
    tasks = made(15)
    variance = np.concatenate([task.X for task in tasks]).var(axis=0).mean()
    assert fit(algorithm, tasks, gamma=2.5).fit_info["ridge"] == pytest.approx(2.5 * variance)
    standardised = fit(algorithm, tasks, gamma=2.5, standardise="features")
    assert standardised.fit_info["ridge"] == pytest.approx(2.5)


@pytest.mark.parametrize("algorithm", [Ridge(), MeanRegularised()])
def test_the_largest_gamma_of_equal_errors_is_selected(algorithm) -> None:
    tasks = TaskSet(tuple(Task(t.name, t.X, "rows", np.full(t.n_samples, 2.0)) for t in made(16)))
    model = fit(algorithm, tasks, selection="loo", grid=(0.1, 100.0, 1.0))
    assert model.fit_info["gamma"] == 100.0


@pytest.mark.parametrize("name", ["W", "intercept"])
def test_arrays_of_the_wrong_shape_are_rejected(name) -> None:
    model = fit(Ridge(), made(13))
    arrays = dict(model.to_arrays())
    arrays[name] = arrays[name][..., :-1]
    with pytest.raises(ValueError, match="expected 4 target columns"):
        type(model).from_arrays(arrays, model.header())


def test_different_classes_are_not_pooled() -> None:
    X = np.random.default_rng(12).standard_normal((40, 3))  # too many to lack a class by chance
    tasks = TaskSet(
        (Task.from_rows("t", X, y=["a", "b"] * 20), Task.from_rows("u", X, y=["a", "c"] * 20))
    )
    message = r"'t' has the classes \('a', 'b'\), task 'u' \('a', 'c'\)"
    for algorithm in (Ridge(), LogisticRegression()):
        with pytest.raises(InvalidData, match=message):
            fit(algorithm, tasks, form="pooled")


def test_selection_on_single_rows_is_rejected() -> None:
    tasks = TaskSet((Task.from_rows("t", [[1.0, 2.0]], y=[1.0]),))
    for algorithm in (Ridge(), MeanRegularised()):
        with pytest.raises(InvalidData, match="selection 'given'"):
            fit(algorithm, tasks, selection="loo")


def unlike_noise(*, classes=False) -> TaskSet:
    """Return tasks that want gammas far apart: nearly without noise, and of noise alone."""
    rng = np.random.default_rng(1)
    tasks = []
    for t in range(4):
        X = rng.standard_normal((24, 4))
        y = X @ np.ones(4) + (0.05 if t % 2 else 20.0) * rng.standard_normal(24)
        tasks.append(Task.from_rows(f"t{t}", X, y=np.where(y > 0, "b", "a") if classes else y))
    return TaskSet(tuple(tasks))


@pytest.mark.parametrize("form", ["task", "pooled"])
@pytest.mark.quick(1)
def test_ridge_chooses_gamma_for_each_task_by_leaving_out_its_rows(form) -> None:
    tasks, grid = unlike_noise(), (0.01, 1.0, 100.0, 1000.0)
    chosen = {"selection": "loo", "grid": grid, "form": form}
    model = fit(Ridge(), tasks, selection_scope="task", **chosen)
    if form == "pooled":  # one function has one gamma
        assert "gamma_by_task" not in model.fit_info
        return
    unit = model.fit_info["ridge"] / model.fit_info["gamma"]
    for task in tasks:
        errors = [
            -cross_val_score(
                OtherRidge(alpha=gamma * unit), task.X, task.y, cv=LeaveOneOut(),
                scoring="neg_mean_squared_error",
            ).mean()
            for gamma in grid
        ]  # fmt: skip
        gamma = grid[int(np.argmin(errors))]
        assert model.fit_info["gamma_by_task"][task.name] == gamma
        alone = OtherRidge(alpha=gamma * unit).fit(task.X, task.y)
        np.testing.assert_allclose(
            model.predict(ROWS, task=task.name), alone.predict(ROWS), atol=EXACT_ATOL
        )
    assert len(set(model.fit_info["gamma_by_task"].values())) > 1
    common = fit(Ridge(), tasks, **chosen)
    assert "gamma_by_task" not in common.fit_info
    assert common.fit_info["gamma"] == model.fit_info["gamma"]


def test_a_task_of_one_row_has_the_common_gamma() -> None:
    tasks = unlike_noise()
    alone = Task.from_rows("one", tasks.tasks[0].X[:1], y=[1.0])
    model = fit(Ridge(), TaskSet((*tasks, alone)), selection="loo", selection_scope="task")
    assert model.fit_info["gamma_by_task"]["one"] == model.fit_info["gamma"]


def test_logistic_regression_chooses_gamma_for_each_task_by_its_held_out_rows() -> None:
    tasks, grid = unlike_noise(classes=True), (0.01, 1.0, 100.0)
    model = fit(LogisticRegression(), tasks, selection="cv", selection_scope="task", grid=grid)
    seed = int(np.random.default_rng(0).integers(2**32))
    splits = fold_splits(tasks.by_name(), n_folds=3, seed=seed)
    for task in tasks:
        losses = []
        for gamma in grid:
            models = [fit(LogisticRegression(), split.train, gamma=gamma) for split in splits]
            held = [split.test[task.name] for split in splits]
            wrong = [
                np.mean(m.predict(h.X, task=h.name) != h.y)
                for m, h in zip(models, held, strict=True)
            ]
            losses.append(np.mean(wrong))
        best = max(g for g, loss in zip(grid, losses, strict=True) if loss == min(losses))
        assert model.fit_info["gamma_by_task"][task.name] == best
        alone = fit(LogisticRegression(), tasks, gamma=best)
        np.testing.assert_allclose(
            model.decision_function(ROWS, task=task.name),
            alone.decision_function(ROWS, task=task.name),
            atol=ITERATED_ATOL,
        )
    assert len(set(model.fit_info["gamma_by_task"].values())) > 1
