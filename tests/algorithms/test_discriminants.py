import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh, null_space
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from algorithms.baselines.aggregate import Aggregate
from algorithms.baselines.discriminants import (
    NullSpaceLDA,
    PCAClassifier,
    RatioTraceLDA,
    TaskByTask,
    TraceRatioLDA,
)
from algorithms.families.projections.scatters import estimate_scatters
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtda import MTDA
from algorithms.registry import ALGORITHMS

#: Projectors on subspaces of separated eigenvalues by two LAPACK routes.
SUBSPACE_ATOL = 1e-8
FAMILY = [a for a in ALGORITHMS.values() if isinstance(a, TaskByTask | Aggregate | MTDA)]
over_family = pytest.mark.parametrize("algorithm", FAMILY, ids=lambda a: a.name)
over_single = pytest.mark.parametrize(
    "algorithm", [a for a in FAMILY if isinstance(a, TaskByTask)], ids=lambda a: a.name
)


def task_of(seed, *, d=6, n=12, c=4, name="t", spread=2.0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(c), n)
    X = spread * rng.standard_normal((c, d))[y] + rng.standard_normal((n * c, d)) @ np.diag(
        rng.uniform(0.3, 2, d)
    )
    return Task.from_rows(name, X, y=y)


def fit(algorithm, *tasks, seed=0, **values):
    params = algorithm.Params(**{"standardise": "center", **values})
    return algorithm.fit(TaskSet(tasks), params, trace=Trace(), rng=np.random.default_rng(seed))


def scatter(task):
    X = task.X - task.X.mean(axis=0)
    means = np.stack([X[task.y == label].mean(axis=0) for label in task.y])
    return means.T @ means / len(X), X.T @ X / len(X)


def assert_same_subspace(U, V, atol=SUBSPACE_ATOL) -> None:
    P, Q = (A @ np.linalg.pinv(A) for A in (U, V))
    assert np.abs(P - Q).max() <= atol


# ---- PCA ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [6, 90])
def test_pca_and_its_neighbours_equal_those_of_scikit_learn(width) -> None:
    task = task_of(1, d=width)
    model = fit(PCAClassifier(), task, d=3)
    pca = PCA(3, svd_solver="full").fit(task.X)
    rows = task_of(2, d=width).X
    np.testing.assert_allclose(
        np.abs(model.transform(rows, task="t")), np.abs(pca.transform(rows)), atol=1e-9
    )
    neighbour = KNeighborsClassifier(1).fit(pca.transform(task.X), task.y)
    np.testing.assert_array_equal(
        model.predict(rows, task="t"), neighbour.predict(pca.transform(rows))
    )


# ---- LDA, ratio trace ---------------------------------------------------------------------------


def test_plain_lda_is_that_of_scikit_learn() -> None:
    task = task_of(3)
    model = fit(RatioTraceLDA(), task, d=3, gamma=0.0)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(task.X, task.y)
    ours, theirs = model.part_of("t").U, lda.scalings_[:, :3]
    for u, v in zip(ours.T, theirs.T, strict=True):  # column by column
        assert_same_subspace(u[:, None], v[:, None])


class Ridged:
    """A covariance with ρ on its diagonal, as scikit-learn expects it."""

    def __init__(self, rho):
        self.rho = rho

    def fit(self, X):
        C = np.cov(X, rowvar=False, bias=True)
        self.covariance_ = C + self.rho * np.eye(len(C))
        return self

    def get_params(self, deep=True):  # noqa: ARG002, FBT002
        return {"rho": self.rho}


@pytest.mark.parametrize("gamma", [0.01, 1.0, 20.0])
def test_ridged_lda_is_that_of_scikit_learn(gamma) -> None:
    # S_t and each S_w get ρI there; their difference S_b gets none, and neither does ours
    task = task_of(4, d=30, n=5)
    rho = gamma * np.trace(scatter(task)[1]) / 30
    lda = LinearDiscriminantAnalysis(solver="eigen", covariance_estimator=Ridged(rho))
    theirs = lda.fit(task.X, task.y).scalings_[:, :3]
    ours = fit(RatioTraceLDA(), task, d=3, gamma=gamma).part_of("t").U
    for u, v in zip(ours.T, theirs.T, strict=True):
        assert_same_subspace(u[:, None], v[:, None], 1e-6)


@given(seed=st.integers(0, 2**32 - 1), d=st.sampled_from([3, 8, 50]), gamma=st.floats(0.01, 50))
@settings(max_examples=40, deadline=None)
def test_ratio_trace_is_the_generalised_eigenproblem(seed, d, gamma) -> None:
    task = task_of(seed, d=d, n=4)
    S_b, S_t = scatter(task)
    S_t = S_t + gamma * np.trace(S_t) / d * np.eye(d)
    U = fit(RatioTraceLDA(), task, d=3, gamma=gamma).part_of("t").U
    np.testing.assert_allclose(U.T @ S_t @ U, np.eye(3), atol=1e-8)
    values = eigh(S_b, S_t, eigvals_only=True)[::-1][:3]
    np.testing.assert_allclose(np.diag(U.T @ S_b @ U), values, atol=1e-8)


def test_two_classes_give_fishers_direction() -> None:
    task = task_of(5, c=2)
    S_b, S_t = scatter(task)
    means = [task.X[task.y == k].mean(axis=0) for k in (0, 1)]
    fisher = np.linalg.solve(S_t - S_b, means[1] - means[0])
    model = fit(RatioTraceLDA(), task, d=5, gamma=0.0)
    assert model.part_of("t").U.shape == (6, 1)
    assert_same_subspace(model.part_of("t").U, fisher[:, None])
    assert "1 instead of 5" in model.warnings[0]


def test_fisherface_is_lda_after_pca() -> None:
    task = task_of(6, d=80, n=4)
    model = fit(RatioTraceLDA(), task, d=3, form="fisherface")
    pca = PCA(16 - 4, svd_solver="full").fit(task.X)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(pca.transform(task.X), task.y)
    assert_same_subspace(model.part_of("t").U, pca.components_.T @ lda.scalings_[:, :3], 1e-6)


def test_fisherface_of_single_rows_keeps_classes_minus_one_components() -> None:
    rng = np.random.default_rng(7)
    task = Task.from_rows("t", rng.standard_normal((5, 30)), y=np.arange(5))
    model = fit(RatioTraceLDA(), task, d=4, form="fisherface")
    assert model.part_of("t").U.shape == (30, 4)
    np.testing.assert_array_equal(model.predict(task.X, task="t"), task.y)


# ---- LDA, trace ratio ---------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_no_nearby_projection_has_a_larger_trace_ratio(gamma) -> None:
    task = task_of(8)
    S_b, S_t = scatter(task)
    S_t = S_t + gamma * np.trace(S_t) / 6 * np.eye(6)
    model = fit(TraceRatioLDA(), task, d=2, gamma=gamma)
    U, alpha = model.part_of("t").U, model.fit_info["by_task"]["t"]["alpha"]
    assert np.trace(U.T @ S_b @ U) / np.trace(U.T @ S_t @ U) == pytest.approx(alpha, abs=1e-12)
    # the optimality condition: the top-d eigenvalues of S_b - αS_t add up to 0
    assert np.linalg.eigvalsh(S_b - alpha * S_t)[-2:].sum() == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(50):
            V = np.linalg.qr(U + size * rng.standard_normal(U.shape))[0]
            assert np.trace(V.T @ S_b @ V) / np.trace(V.T @ S_t @ V) <= alpha + 1e-12


def test_one_direction_is_the_ratio_trace_direction() -> None:
    # for d = 1 both forms are the Rayleigh quotient
    task = task_of(9)
    by_ratio = fit(TraceRatioLDA(), task, d=1, gamma=0.2).part_of("t").U
    by_trace = fit(RatioTraceLDA(), task, d=1, gamma=0.2).part_of("t").U
    assert_same_subspace(by_ratio, by_trace, 1e-6)


# ---- LDA, null space ----------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_null_space_lda_is_the_best_of_the_null_space(d) -> None:
    task = task_of(10, d=40, n=3)
    S_b, S_t = scatter(task)
    # the null space in the full space, from the definition
    N = null_space(S_t - S_b, rcond=1e-10)
    expected = N @ np.linalg.eigh(N.T @ S_b @ N)[1][:, ::-1][:, :d]
    model = fit(NullSpaceLDA(), task, d=d)
    assert_same_subspace(model.part_of("t").U, expected, 1e-7)
    assert model.warnings == ()
    assert model.metrics["trace_ratio"]["t"] == pytest.approx(1.0)


def test_many_rows_leave_no_null_space_and_get_the_plain_lda() -> None:
    task = task_of(11)
    model = fit(NullSpaceLDA(), task, d=3)
    assert any(
        "1 of 1 tasks" in warning and "ordinary LDA" in warning for warning in model.warnings
    )
    plain = fit(RatioTraceLDA(), task, d=3, gamma=0.0)
    np.testing.assert_allclose(model.part_of("t").U, plain.part_of("t").U)


@pytest.mark.parametrize("algorithm", [RatioTraceLDA(), NullSpaceLDA()], ids=lambda a: a.name)
@pytest.mark.parametrize("standardise", ["center", "scale", "features"])
@pytest.mark.parametrize("power", [5, 10, 40])
def test_plain_lda_does_not_depend_on_the_scales_of_columns(algorithm, standardise, power) -> None:
    # the classes differ in the last columns, which have the smallest variance
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 30)
    X = rng.standard_normal((90, 6))
    X[:, 4:] += 4 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    scales = np.logspace(power / 2, -power / 2, 6)
    values = {"gamma": 0.0} if algorithm.name == "lda-rt" else {}
    task = Task.from_rows("t", X * scales, y=y)
    model = fit(algorithm, task, d=2, standardise=standardise, **values)
    lda = LinearDiscriminantAnalysis(solver="eigen", n_components=2).fit(X, y)
    own = model.transform(X * scales, task="t")
    own, theirs = (Z - Z.mean(axis=0) for Z in (own, lda.transform(X)))
    assert_same_subspace(own, theirs, 1e-7)
    # the metric as well: the nearest neighbours are the same
    np.testing.assert_allclose(own.T @ own / 90, np.eye(2), atol=1e-7)


def test_null_space_directions_are_at_most_classes_minus_one() -> None:
    model = fit(NullSpaceLDA(), task_of(11, d=90, n=3, c=4), d=10)
    assert model.part_of("t").U.shape == (90, 3)
    assert "3 instead of 10" in model.warnings[0]


@pytest.mark.parametrize("classifier", ["nearest-neighbour", "nearest-centroid"])
@over_family
def test_the_trace_ratio_is_that_of_the_scatter_matrices(algorithm, classifier) -> None:
    task = task_of(12, n=5)
    uneven = Task.from_rows("t", task.X[:-3], y=task.y[:-3])
    for standardise in ("center", "scale"):
        model = fit(algorithm, uneven, d=2, standardise=standardise, classifier=classifier)
        U = model.part_of("t").U
        S_b, S_t = scatter(uneven)
        ratio = np.trace(U.T @ S_b @ U) / np.trace(U.T @ S_t @ U)
        assert 0.1 < ratio < 0.999
        assert model.metrics["trace_ratio"]["t"] == pytest.approx(ratio)


@over_family
def test_the_trace_ratio_does_not_depend_on_the_unit_of_the_rows(algorithm) -> None:
    task = task_of(12, n=5)
    small = Task.from_rows("t", 1e-4 * task.X, y=task.y)
    ratio, other = (fit(algorithm, one, d=2).metrics["trace_ratio"]["t"] for one in (task, small))
    assert other == pytest.approx(ratio)


def test_a_scaled_task_has_total_variance_one() -> None:
    task = task_of(13)
    scaled = estimate_scatters(task, standardise="scale")
    assert scaled.total.sum() == pytest.approx(1.0)
    assert np.sum(scaled.rows**2) / len(scaled.rows) == pytest.approx(1.0)


# ---- Aggregate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["own", "common"])
def test_aggregate_is_one_lda_of_all_projected_rows(labels) -> None:
    tasks = [task_of(12, d=9, name="a"), task_of(13, d=14, n=7, c=3, name="b")]
    model = fit(Aggregate(), *tasks, d=3, d_prime=5, gamma=0.0, labels=labels)
    Z, y = [], []
    for task in tasks:
        part = model.part_of(task.name)
        pca = PCA(5, svd_solver="full").fit(task.X)
        np.testing.assert_allclose(np.abs(part.W), np.abs(pca.components_.T), atol=1e-9)
        np.testing.assert_allclose(part.W @ model.P, part.U, atol=1e-12)
        Z.append((task.X - task.X.mean(axis=0)) @ part.W)
        prefix = task.name if labels == "own" else ""
        y += [f"{prefix}{label}" for label in task.y]
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(np.concatenate(Z), y)
    assert_same_subspace(model.P, lda.scalings_[:, :3], 1e-7)


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_a_coordinate_is_scored_by_the_tasks_that_have_it(gamma) -> None:
    tasks = [task_of(14, d=20, n=2, c=2, name="few"), task_of(15, d=20, name="many")]
    model = fit(Aggregate(), *tasks, d=3, d_prime=10, gamma=gamma)
    np.testing.assert_array_equal(model.part_of("few").W[:, 3:], 0.0)
    assert any("'few'" in text and "as few as 3" in text for text in model.warnings)
    S_b, S_t = np.zeros((10, 10)), np.zeros((10, 10))
    few, many = ((t.X - t.X.mean(axis=0)) @ model.part_of(t.name).W for t in tasks)
    # rows that count for a pair of coordinates: those that have both, in the geometric mean
    rows = np.array([len(few) + len(many)] * 3 + [len(many)] * 7)
    for Z, task in ((few, tasks[0]), (many, tasks[1])):
        for label in np.unique(task.y):
            mean = Z[task.y == label].mean(axis=0)
            S_b += np.sum(task.y == label) * np.outer(mean, mean) / np.sqrt(np.outer(rows, rows))
        S_t += Z.T @ Z / np.sqrt(np.outer(rows, rows))
    S_t += gamma * np.trace(S_t) / 10 * np.eye(10)
    assert_same_subspace(model.P, eigh(S_b, S_t)[1][:, -3:])


def test_classes_of_equal_means_are_projected_on_the_first_principal_component() -> None:
    half = np.random.default_rng(25).standard_normal((5, 4)) * [3.0, 1.0, 0.5, 0.2]
    # every class holds each row and its negative, so that all class means are 0
    X = np.concatenate([half, -half, 2 * half, -2 * half])
    model = fit(Aggregate(), Task.from_rows("a", X, y=["b"] * 10 + ["c"] * 10))
    expected = PCA(1, svd_solver="full").fit_transform(X)
    found = model.transform(X, task="a")
    assert found.shape == expected.shape
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9)


def test_a_new_task_is_projected_by_the_common_part() -> None:
    tasks = [task_of(16, d=9, name="a"), task_of(17, d=14, name="b")]
    model = fit(Aggregate(), *tasks, d=3, d_prime=5)
    adapted = Aggregate().adapt(model, task_of(18, d=11, name="c"))
    part = adapted.part_of("c")
    np.testing.assert_array_equal(part.U, part.W @ model.P)


# ---- the family ---------------------------------------------------------------------------------


@over_single
def test_tasks_are_independent(algorithm) -> None:
    tasks = [task_of(19, name="a"), task_of(20, d=30, n=4, name="b")]
    both = fit(algorithm, *tasks, selection="cv")
    for task in tasks:
        alone = fit(algorithm, task, selection="cv")
        np.testing.assert_array_equal(both.part_of(task.name).U, alone.part_of(task.name).U)
        assert both.fit_info["by_task"][task.name] == alone.fit_info["by_task"][task.name]


@over_single
def test_a_new_task_is_learned_as_in_a_fit(algorithm) -> None:
    a, b = task_of(21, name="a"), task_of(22, d=30, n=4, name="b")
    both = fit(algorithm, a, b, selection="cv")
    adapted = algorithm.adapt(fit(algorithm, a, selection="cv"), b)
    np.testing.assert_array_equal(both.part_of("b").U, adapted.part_of("b").U)
    assert both.fit_info == adapted.fit_info


@over_family
def test_constant_rows_are_predicted_as_the_first_label(algorithm) -> None:
    flat = Task.from_rows("flat", np.ones((6, 4)), y=["b", "b", "c", "c", "a", "a"])
    model = fit(algorithm, flat)
    assert any("no variance" in warning for warning in model.warnings)
    assert model.predict(np.zeros((2, 4)), task="flat").tolist() == ["a", "a"]
    both = fit(algorithm, flat, task_of(23))
    assert np.isfinite(both.transform(task_of(24).X, task="t")).all()


@over_family
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_rotated_features_change_no_prediction(algorithm, seed) -> None:
    task = task_of(seed, d=20, n=4)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((20, 20)))[0]
    rows = task_of(seed + 1, d=20, n=4).X
    here = fit(algorithm, task, d=2).predict(rows, task="t")
    there = fit(algorithm, Task.from_rows("t", task.X @ Q, y=task.y), d=2)
    np.testing.assert_array_equal(here, there.predict(rows @ Q, task="t"))


@over_family
def test_separable_classes_are_predicted(algorithm) -> None:
    train, test = (task_of(25, d=15, spread=15.0) for _ in range(2))
    rng = np.random.default_rng(0)
    rows = test.X + 0.5 * rng.standard_normal(test.X.shape)
    for classifier in ("nearest-neighbour", "nearest-centroid"):
        model = fit(algorithm, train, d=3, classifier=classifier)
        np.testing.assert_array_equal(model.predict(rows, task="t"), test.y)


@over_family
@pytest.mark.quick(1)
def test_permuted_labels_give_the_error_of_chance(algorithm) -> None:
    # a selection that used the held-out rows would score better than chance
    from algorithms.evaluation import error_rates, stratified_split

    errors = []
    for seed in range(6):
        rng = np.random.default_rng([26, seed])
        task = task_of(seed, d=25, n=24, c=4)
        shuffled = TaskSet((Task.from_rows("t", task.X, y=rng.permutation(task.y)),))
        split = stratified_split(shuffled, n_train=4, rng=rng)
        params = algorithm.Params(selection="cv", d_grid=(1, 3))
        model = algorithm.fit(split.train, params, trace=Trace(), rng=rng)
        errors.append(error_rates(model, split.test)["t"])
    # 480 test rows of chance 3/4: three standard deviations are 0.06
    assert np.mean(errors) == pytest.approx(0.75, abs=0.06)
