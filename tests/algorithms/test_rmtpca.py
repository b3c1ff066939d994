import itertools
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from algorithms.baselines.pca import CommonPCA, TaskPCA
from algorithms.families.subspaces.moments import estimate_moments, held_out_ratio
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.numerics import warm
from algorithms.numerics.compiled_traces import compile_for
from algorithms.numerics.coupled_traces import BlasCoupledTraces
from algorithms.numerics.covariances import from_dense, from_factors
from algorithms.numerics.grassmann import project, projector_distance, random_points, retract
from algorithms.numerics.kernels import rmtpca as kernels
from algorithms.rmtpca import RMTPCA, RMTPCAParams
from algorithms.rmtpca.coupled import (
    best_start,
    coupled_traces,
    follow_path,
    informed_starts,
    maximise,
    maximise_from_many,
    sweep_blocks,
)
from algorithms.rmtpca.newton import start_at
from algorithms.rmtpca.selection import choose_within_standard_error, inner_splits
from benchmarks.harness.problems import covariance_tasks, tilted_gaussians, unrelated_gaussians

#: Central differences of J lose half its digits.
DIFFERENCE_RTOL = 1e-6
#: What the final gradient of each task must be below, relative to its own scale.
GRADIENT_RTOL = 1e-8
#: Subspaces from two routes, each converged to 1e-9 or better.
SUBSPACE_ATOL = 1e-6
#: Kernel against twin: the same sums in another order.
ROUNDING = 1e-11

STOPPING = StoppingRule(tolerance=1e-9, max_iter=200)


def random_covariances(rng, *, T, d, n=None):
    A = rng.standard_normal((T, n or d + 3, d)) * np.sqrt(np.geomspace(5.0, 1.0, d))
    return from_dense(np.swapaxes(A, 1, 2) @ A / (n or d + 3))


def fit(tasks, *, seed=0, trace=None, **values):
    return RMTPCA().fit(
        tasks, RMTPCAParams(**values), trace=trace or Trace(), rng=np.random.default_rng(seed)
    )


def of_covariances(matrices):
    return TaskSet(
        tuple(Task.from_covariances(f"task-{t}", C) for t, C in enumerate(np.asarray(matrices)))
    )


def projector(U):
    """Return the projectors UᵀU onto subspaces."""
    return np.swapaxes(U, -1, -2) @ U


def distances(a, b):
    """Return projection distances of two models' subspaces."""
    return projector_distance(np.swapaxes(a.U, 1, 2), np.swapaxes(b.U, 1, 2))


# --- laws of the Grassmannian ------------------------------------------------------------------


@st.composite
def points_and_tangents(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, 7))
    k = draw(st.integers(1, d))
    U = random_points(rng, n_points=2, k=k, d=d)
    scale = draw(st.sampled_from([1e-8, 1e-2, 1.0, 30.0]))
    return U, project(U, scale * rng.standard_normal(U.shape)), rng


@given(points_and_tangents())
def test_projection_is_idempotent_and_orthogonal_to_the_point(drawn) -> None:
    U, E, _ = drawn
    size = 1.0 + np.abs(E).max()
    assert np.abs(E @ np.swapaxes(U, 1, 2)).max() <= ROUNDING * size
    assert np.abs(project(U, E) - E).max() <= ROUNDING * size


@given(points_and_tangents())
def test_retraction_is_orthonormal_and_spans_the_sum(drawn) -> None:
    U, E, _ = drawn
    Q = retract(U, E)
    assert np.abs(Q @ np.swapaxes(Q, 1, 2) - np.eye(U.shape[1])).max() <= ROUNDING
    assert np.abs(project(Q, U + E)).max() <= ROUNDING * (1.0 + np.abs(E).max())


@given(points_and_tangents())
def test_retraction_of_a_small_tangent_is_the_sum_to_second_order(drawn) -> None:
    U, E, _ = drawn
    assume(U.shape[1] < U.shape[2])
    E = E * (1e-4 / np.abs(E).max())
    change = projector(retract(U, E)) - projector(U)
    first = np.swapaxes(E, 1, 2) @ U + np.swapaxes(U, 1, 2) @ E
    assert np.abs(change - first).max() <= 100 * 1e-8


@given(points_and_tangents())
def test_distance_is_a_metric_of_subspaces_not_of_bases(drawn) -> None:
    U, _, rng = drawn
    _, k, d = U.shape
    V, W = random_points(rng, n_points=2, k=k, d=d), random_points(rng, n_points=2, k=k, d=d)
    turn = np.linalg.qr(rng.standard_normal((2, k, k)))[0]
    assert np.all(projector_distance(U, turn @ U) <= ROUNDING)
    np.testing.assert_allclose(
        projector_distance(U, V), projector_distance(V, turn @ U), atol=ROUNDING
    )
    np.testing.assert_array_less(
        projector_distance(U, W), projector_distance(U, V) + projector_distance(V, W) + ROUNDING
    )


@given(points_and_tangents())
def test_squared_distance_is_2k_minus_twice_the_trace(drawn) -> None:
    # the paper prints 2d in place of 2k
    U, _, rng = drawn
    V = random_points(rng, n_points=2, k=U.shape[1], d=U.shape[2])
    overlap = np.sum(projector(U) * projector(V), axis=(1, 2))
    np.testing.assert_allclose(
        projector_distance(U, V) ** 2, 2 * U.shape[1] - 2 * overlap, atol=ROUNDING
    )
    np.testing.assert_allclose(
        projector_distance(U, V),
        np.linalg.norm(projector(U) - projector(V), axis=(1, 2)),
        atol=ROUNDING,
    )


# --- objective, gradient, Hessian --------------------------------------------------------------

SHAPES = [
    (1, 4, 2),
    (2, 6, 2),
    (5, 6, 5),
    (9, 7, 3),
    (17, 5, 1),
    (3, 14, 4),
    (4, 40, 3),
    (3, 45, 12),
]


@pytest.mark.parametrize(("T", "d", "k"), SHAPES)
def test_objective_is_equation_4(T, d, k) -> None:
    rng = np.random.default_rng(0)
    C, lam = random_covariances(rng, T=T, d=d), 0.7
    U = random_points(rng, n_points=T, k=k, d=d)
    P = projector(U)
    J = 0.5 * np.sum(C.dense * P)
    J += lam / 4 * sum(np.sum(P[s] * P[t]) for s in range(T) for t in range(T) if s != t)
    found = BlasCoupledTraces(C, lam, k).evaluate(U)
    assert pytest.approx(J, rel=1e-12) == found.J


@pytest.mark.parametrize(("T", "d", "k"), SHAPES)
def test_gradient_and_hessian_agree_with_differences(T, d, k) -> None:
    rng = np.random.default_rng(1)
    C = random_covariances(rng, T=T, d=d)
    objective = BlasCoupledTraces(C, 1.3, k)
    U = random_points(rng, n_points=T, k=k, d=d)
    _, _, F = objective.evaluate(U)
    E = project(U, rng.standard_normal(U.shape))
    E /= np.linalg.norm(E)

    def gradient_at(h):
        point = retract(U, h * E)
        return objective.evaluate(point).J, project(U, gradient(point))

    def gradient(point):
        return objective.gradient(point, objective.evaluate(point).F)

    h = 1e-5
    (J_plus, g_plus), (J_minus, g_minus) = gradient_at(h), gradient_at(-h)
    slope, size = np.vdot(gradient(U), E), np.linalg.norm(gradient(U))
    assert abs((J_plus - J_minus) / (2 * h) - slope) <= DIFFERENCE_RTOL * size
    HE = objective.hessian(U, F, E)
    difference = -(g_plus - g_minus) / (2 * h)
    assert np.linalg.norm(difference - HE) <= DIFFERENCE_RTOL * np.linalg.norm(HE)


@pytest.mark.parametrize(("T", "d", "k"), SHAPES)
def test_hessian_is_symmetric_and_tangent(T, d, k) -> None:
    rng = np.random.default_rng(2)
    objective = BlasCoupledTraces(random_covariances(rng, T=T, d=d), 1.3, k)
    U = random_points(rng, n_points=T, k=k, d=d)
    F = objective.evaluate(U).F
    E, D = (project(U, rng.standard_normal(U.shape)) for _ in range(2))
    HE, HD = objective.hessian(U, F, E), objective.hessian(U, F, D)
    assert np.vdot(D, HE) == pytest.approx(np.vdot(E, HD), rel=1e-10)
    assert np.abs(HE @ np.swapaxes(U, 1, 2)).max() <= ROUNDING * np.abs(HE).max()


@pytest.mark.parametrize(("T", "d", "k"), SHAPES)
def test_kernels_agree_with_their_numpy_versions(T, d, k) -> None:
    rng = np.random.default_rng(3)
    C, lam = random_covariances(rng, T=T, d=d), 0.9
    twin, compiled = BlasCoupledTraces(C, lam, k), compile_for(C, lam=lam, k=k)
    U = random_points(rng, n_points=T, k=k, d=d)
    expected, found = twin.evaluate(U), compiled.evaluate(U)
    assert pytest.approx(expected.J, rel=ROUNDING) == found.J
    assert found.residual == pytest.approx(expected.residual, rel=1e-9)
    np.testing.assert_allclose(found.F, expected.F, atol=ROUNDING * 100)
    E = project(U, rng.standard_normal(U.shape))
    A = kernels.with_coupling(compiled.C, kernels.sum_of_products(U, U), lam)
    HE = np.empty_like(E)
    kernels.hessian(A, kernels.inner_products(found.F, U), lam, U, E, HE)
    np.testing.assert_allclose(HE, twin.hessian(U, expected.F, E), atol=ROUNDING * 1e3)


@pytest.mark.parametrize("radius", [1e-3, 10.0])
@pytest.mark.parametrize(("T", "d", "k"), SHAPES)
def test_compiled_step_agrees_with_its_numpy_version(T, d, k, radius) -> None:
    rng = np.random.default_rng(4)
    C, lam = random_covariances(rng, T=T, d=d), 0.9
    twin, compiled = BlasCoupledTraces(C, lam, k), compile_for(C, lam=lam, k=k)
    # with one task, the leading vectors are the optimum, where a step is rounding error
    U = C.leading(k)
    U = np.ascontiguousarray(retract(U, project(U, 0.1 * rng.standard_normal(U.shape))))
    a = twin.trial_step(U, twin.evaluate(U).F, radius=radius, forcing=0.1)
    b = compiled.trial_step(U, compiled.evaluate(U).F, radius=radius, forcing=0.1)
    assert np.all(projector_distance(b.point, a.point) <= 1e-7)
    assert pytest.approx(a.value.J, rel=1e-9) == b.value.J
    assert b.predicted == pytest.approx(a.predicted, rel=1e-6, abs=1e-10)
    assert b.length == pytest.approx(a.length, rel=1e-6, abs=1e-10)
    assert b.is_clipped == a.is_clipped


def test_warming_compiles_what_a_fit_uses() -> None:
    warm.main()
    before = _n_signatures()
    for d in (6, 20):
        C = random_covariances(np.random.default_rng(0), T=3, d=d)
        maximise(C, lam=0.3, k=2, stopping=STOPPING, trace=Trace())
    assert _n_signatures() == before == (1, 1)


def _n_signatures() -> tuple[int, int]:
    return len(kernels.evaluate.signatures), len(kernels.trial_step.signatures)


# --- the fit -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_fit_reaches_a_critical_point_of_every_task(seed) -> None:
    rng = np.random.default_rng(seed)
    T, d = int(rng.integers(1, 9)), int(rng.integers(2, 16))
    k, c = int(rng.integers(1, d + 1)), float(np.exp(rng.uniform(-4, 5)))
    C = random_covariances(rng, T=T, d=d, n=int(rng.integers(1, 20)))
    trace = Trace()
    optimum = maximise(C, lam=c, k=k, stopping=STOPPING, trace=trace)
    values = [step.objective for step in trace.history]
    assert all(b >= a - 1e-12 * abs(a) for a, b in pairwise(values))
    F = BlasCoupledTraces(C, c, k).evaluate(optimum.U).F
    sizes = np.linalg.norm(project(optimum.U, F), axis=(1, 2))
    assert np.all(sizes <= GRADIENT_RTOL * (C.traces + c * (T - 1) * k))
    assert optimum.reason in {"converged", "stalled"}


def test_one_task_gives_plain_pca() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 7)) @ np.diag(np.arange(1.0, 8.0))
    decomposition = pytest.importorskip("sklearn.decomposition")
    pca = decomposition.PCA(3).fit(rows)
    model = fit(TaskSet((Task.from_rows("only", rows),)), k=3, lam=5.0)
    assert projector_distance(pca.components_, model.U[0].T) <= SUBSPACE_ATOL
    np.testing.assert_allclose(model.spectrum[0], pca.explained_variance_, rtol=1e-9)
    assert model.metrics["rvr"]["only"] == pytest.approx(pca.explained_variance_ratio_.sum())


def test_no_coupling_gives_pca_of_each_task() -> None:
    tasks = tilted_gaussians(np.random.default_rng(1), n_tasks=5, n_samples=15).tasks
    own = TaskPCA().fit(tasks, TaskPCA.Params(), trace=Trace(), rng=np.random.default_rng(0))
    assert np.all(distances(fit(tasks, lam=0.0), own) <= SUBSPACE_ATOL)


def test_strong_coupling_gives_the_top_of_the_unweighted_sum() -> None:
    tasks = tilted_gaussians(np.random.default_rng(2), n_tasks=5, n_samples=15).tasks
    common = CommonPCA().fit(tasks, CommonPCA.Params(), trace=Trace(), rng=np.random.default_rng(0))
    far, further = (distances(fit(tasks, lam=c), common).max() for c in (1e3, 1e5))
    assert far <= 1e-1
    assert further <= 1e-3
    # the distance falls as 1/λ
    assert further == pytest.approx(far / 100, rel=0.2)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
)
def test_another_solver_finds_no_higher_objective(seed) -> None:
    rng = np.random.default_rng(seed)
    C = random_covariances(rng, T=4, d=6)
    lam = 0.3
    optimum = maximise(C, lam=lam, k=2, stopping=STOPPING, trace=Trace())
    objective = BlasCoupledTraces(C, lam, 2)
    # block-wise ascent from the same best start, exact in each block, and monotone
    start = max(informed_starts(C, objective, k=2), key=lambda U: objective.evaluate(U).J)
    swept = sweep_blocks(C, start, lam=lam, n_sweeps=2000)
    end = objective.evaluate(swept)
    assert end.residual <= 1e-7
    assert optimum.objective == pytest.approx(end.J, rel=1e-10)
    assert np.all(projector_distance(optimum.U, swept) <= 1e-4)


def test_parallel_step_with_the_own_term_never_lowers_the_objective() -> None:
    rng = np.random.default_rng(5)
    C, lam, k = random_covariances(rng, T=5, d=6), 0.8, 2
    objective = BlasCoupledTraces(C, lam, k)
    U = random_points(rng, n_points=5, k=k, d=6)
    J = objective.evaluate(U).J
    for _ in range(50):
        B = np.sqrt(lam) * U.reshape(-1, 6)
        U = np.stack([C.leading_of_block(t, B, k) for t in range(5)])
        rising = objective.evaluate(U).J
        assert rising >= J - 1e-12 * abs(J)
        J = rising


@pytest.mark.parametrize(("T", "d", "k"), SHAPES)
def test_ascent_steps_never_lower_the_objective(T, d, k) -> None:
    rng = np.random.default_rng(7)
    C, lam = random_covariances(rng, T=T, d=d), 0.8
    twin, compiled = BlasCoupledTraces(C, lam, k), compile_for(C, lam=lam, k=k)
    U = random_points(rng, n_points=T, k=k, d=d)
    J = twin.evaluate(U).J
    for _ in range(20):
        expected = twin.ascend(U, n_steps=1)
        U = compiled.ascend(U, n_steps=1)
        assert np.all(projector_distance(U, expected) <= SUBSPACE_ATOL)
        np.testing.assert_allclose(
            U @ np.swapaxes(U, 1, 2), np.broadcast_to(np.eye(k), (T, k, k)), atol=ROUNDING
        )
        rising = twin.evaluate(U).J
        assert rising >= J - 1e-12 * abs(J)
        J = rising


@pytest.mark.parametrize("lam", [0.0, 1e-6, 0.01, 0.3, 10.0])
def test_fit_starts_at_the_best_informed_start_though_it_seldom_computes_all(lam) -> None:
    for seed in range(10):
        C = random_covariances(np.random.default_rng(seed), T=6, d=7)
        objective = coupled_traces(C, lam=lam, k=2)
        every = [start_at(objective, U).objective for U in informed_starts(C, objective, k=2)]
        assert best_start(C, objective, k=2).objective == max(every)


def test_starts_and_sweeps_are_the_maximisers_that_they_claim_to_be() -> None:
    C = estimate_moments(tilted_gaussians(np.random.default_rng(6), n_tasks=3).tasks.tasks, k=2).C
    lam = 0.7

    def top(A):
        return np.linalg.eigh(A)[1][:, -2:]

    objective = BlasCoupledTraces(C, lam, 2)
    own, common, risen = informed_starts(C, objective, k=2)
    P = top(C.dense.sum(axis=0)) @ top(C.dense.sum(axis=0)).T
    for t in range(3):
        assert projector_distance(own[t], top(C.dense[t]).T) <= SUBSPACE_ATOL
        np.testing.assert_allclose(common[t].T @ common[t], P, atol=SUBSPACE_ATOL)
    assert objective.evaluate(risen).J > objective.evaluate(common).J
    U = sweep_blocks(C, own, lam=lam, n_sweeps=1)
    others = sum(U[s].T @ U[s] for s in (0, 1))
    assert projector_distance(U[2], top(C.dense[2] + lam * others).T) <= SUBSPACE_ATOL


def test_many_starts_are_never_below_one() -> None:
    for seed in range(10):
        C = random_covariances(np.random.default_rng(seed), T=4, d=6)
        one = maximise(C, lam=0.5, k=2, stopping=STOPPING, trace=Trace())
        trace = Trace()
        many = maximise_from_many(
            C, lam=0.5, k=2, stopping=STOPPING, trace=trace, rng=np.random.default_rng(seed)
        )
        assert len(trace.stop_reasons) == 10
        assert many.objective >= one.objective - 1e-12 * abs(one.objective)


def test_path_is_at_least_as_good_as_single_fits() -> None:
    C = random_covariances(np.random.default_rng(6), T=6, d=6)
    lams = list(np.geomspace(0.01, 30.0, 9))
    path = follow_path(C, lams=lams, k=2, stopping=STOPPING, trace=Trace(), loop="path")
    for lam, optimum in zip(lams, path, strict=True):
        assert optimum.residual <= STOPPING.tolerance
        one = maximise(C, lam=lam, k=2, stopping=STOPPING, trace=Trace())
        assert optimum.objective >= one.objective - 1e-3 * abs(one.objective)
    # retained variance falls and overlap rises along the path
    own = [BlasCoupledTraces(C, 0.0, 2).evaluate(optimum.U).J for optimum in path]
    assert own[0] > own[-1]


# --- traps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [-40, 40, 3])
def test_scaled_data_give_the_same_subspaces(power) -> None:
    tasks = tilted_gaussians(np.random.default_rng(7), n_tasks=4).tasks
    scaled = TaskSet(tuple(Task.from_rows(t.name, t.X * 10.0**power) for t in tasks))
    assert np.all(distances(fit(tasks), fit(scaled)) <= SUBSPACE_ATOL)


def test_a_task_of_large_variance_does_not_hide_the_others() -> None:
    tasks = tilted_gaussians(np.random.default_rng(8), n_tasks=4).tasks
    first, *others = tasks
    mixed = TaskSet((Task.from_rows(first.name, first.X * 1e4), *others))
    C = estimate_moments(mixed.tasks, k=2).C
    optimum = maximise(C, lam=0.5, k=2, stopping=STOPPING, trace=Trace())
    F = BlasCoupledTraces(C, 0.5, 2).evaluate(optimum.U).F
    sizes = np.linalg.norm(project(optimum.U, F), axis=(1, 2))
    assert np.all(sizes <= GRADIENT_RTOL * (C.traces + 0.5 * 3 * 2))


@pytest.mark.parametrize("k", [1, 2, 5, 6])
def test_every_dimension_up_to_all_can_be_fitted(k) -> None:
    tasks = tilted_gaussians(np.random.default_rng(9), n_tasks=3).tasks
    C = estimate_moments(tasks.tasks, k=k).C
    U = maximise(C, lam=0.5, k=k, stopping=STOPPING, trace=Trace()).U
    np.testing.assert_allclose(
        U @ np.swapaxes(U, 1, 2), np.broadcast_to(np.eye(k), (3, k, k)), atol=1e-10
    )


@pytest.mark.parametrize("lam", [0.0, 1.0])
@pytest.mark.parametrize(
    "matrices",
    [
        np.zeros((3, 5, 5)),
        np.tile(np.eye(5), (3, 1, 1)),
        np.tile(np.diag([3, 2, 2, 1, 0.0]), (3, 1, 1)),
    ],
    ids=["zero", "identity", "identical-with-ties"],
)
@pytest.mark.parametrize("scale", ["relative", "absolute"])
def test_degenerate_covariances_can_be_fitted(matrices, lam, scale) -> None:
    model = fit(of_covariances(matrices), k=2, lam=lam, lam_scale=scale)
    assert np.isfinite(model.U).all()
    np.testing.assert_allclose(
        np.swapaxes(model.U, 1, 2) @ model.U, np.broadcast_to(np.eye(2), (3, 2, 2)), atol=1e-10
    )
    best = sorted(np.diag(matrices[0]))[-2:]
    np.testing.assert_allclose(model.spectrum.sum(axis=1), sum(best), atol=1e-7)


def test_identical_tasks_share_their_pca() -> None:
    rows = np.random.default_rng(10).standard_normal((20, 6))
    tasks = TaskSet(tuple(Task.from_rows(f"t{i}", rows) for i in range(4)))
    model = fit(tasks, lam=2.0)
    own = TaskPCA().fit(tasks, TaskPCA.Params(), trace=Trace(), rng=np.random.default_rng(0))
    assert np.all(distances(model, own) <= SUBSPACE_ATOL)


@pytest.mark.parametrize(
    ("size", "message"), [(1e100, " has total variance"), (1e160, ", column 0")]
)
def test_overflowing_variance_is_rejected(size, message) -> None:
    rows = np.random.default_rng(0).standard_normal((5, 3))
    tasks = TaskSet((Task.from_rows("fine", rows), Task.from_rows("huge", size * rows)))
    with pytest.raises(InvalidData, match=f"'huge'{message}"):
        fit(tasks)


@pytest.mark.parametrize(("n", "d", "T"), [(12, 300, 4), (20, 100, 6), (15, 70, 6)])
def test_thin_factors_and_joint_span_agree_with_dense_matrices(n, d, T) -> None:
    rng = np.random.default_rng(11)
    tasks = TaskSet(tuple(Task.from_rows(f"t{t}", rng.standard_normal((n, d))) for t in range(T)))
    C = estimate_moments(tasks.tasks, k=3).C
    assert C.span is not None or C.factors is not None
    model = fit(tasks, k=3, lam=50.0)
    dense = fit(of_covariances([np.cov(t.X, rowvar=False) for t in tasks]), k=3, lam=50.0)
    assert np.all(distances(model, dense) <= 1e-5)
    np.testing.assert_allclose(model.total_variance, dense.total_variance)


def test_fewer_rows_than_dimensions_can_be_fitted() -> None:
    rng = np.random.default_rng(12)
    tasks = TaskSet(tuple(Task.from_rows(f"t{t}", rng.standard_normal((2, 50))) for t in range(2)))
    model = fit(tasks, k=8)
    assert model.U.shape == (2, 50, 8)
    assert model.metrics["rvr"]["t0"] == pytest.approx(1.0)


def test_dense_and_thin_forms_have_the_same_optimum() -> None:
    rng = np.random.default_rng(13)
    factors = [rng.standard_normal((10, 50)) for _ in range(7)]
    thin, dense = from_factors(factors, k=3), from_dense(np.stack([A.T @ A for A in factors]))
    assert thin.factors is not None
    a, b = (maximise(C, lam=9.0, k=3, stopping=STOPPING, trace=Trace()) for C in (thin, dense))
    assert a.objective == pytest.approx(b.objective, rel=1e-10)


# --- choice of λ, new tasks, errors ------------------------------------------------------------


def mean_true_ratio(model, problem) -> float:
    retained = [
        np.trace(U.T @ C @ U) / np.trace(C)
        for U, C in zip(
            np.broadcast_to(model.U, (len(model.tasks), *model.U.shape[1:])),
            problem.covariances,
            strict=True,
        )
    ]
    return float(np.mean(retained))


@pytest.mark.slow
def test_cross_validated_coupling_is_better_than_both_baselines() -> None:
    # with ten rows per task, choosing λ from them is worth it from some thirty tasks on
    gains = []
    for seed in range(20):
        problem = tilted_gaussians(np.random.default_rng(seed), n_tasks=30)
        model = fit(problem.tasks, selection="cv", seed=seed)
        baselines = [
            algorithm.fit(
                problem.tasks, algorithm.Params(), trace=Trace(), rng=np.random.default_rng(0)
            )
            for algorithm in (TaskPCA(), CommonPCA())
        ]
        ours = mean_true_ratio(model, problem)
        gains.append([ours - mean_true_ratio(other, problem) for other in baselines])
    gains = np.array(gains)
    t = gains.mean(axis=0) / (gains.std(axis=0, ddof=1) / np.sqrt(len(gains)))
    assert np.all(t >= 3.0)


def test_the_default_is_kept_within_one_standard_error() -> None:
    # differences to the best candidate in four observations, of deviation 1 about the mean given:
    # the standard error is 0.5
    spread = np.array([1.0, -1.0, 1.0, -1.0]) * np.sqrt(3) / 2

    def choose(*lags, preferred):
        scores = np.array([10.0 - lag * (1 + 0 * spread) - (lag > 0) * spread for lag in lags])
        return choose_within_standard_error(scores, preferred=preferred)

    assert choose(0.49, 0.0, preferred=0) == 0
    assert choose(0.51, 0.0, preferred=0) == 1
    # the first on the way that is good enough, from either side
    assert choose(0.9, 0.51, 0.4, 0.1, 0.0, preferred=0) == 2
    assert choose(0.0, 0.1, 0.4, 0.51, 0.9, preferred=4) == 2
    assert choose(0.4, 0.0, 0.4, preferred=1) == 1
    assert choose(0.1, 0.0, preferred=None) == 1


@pytest.mark.slow
def test_with_few_tasks_the_selected_coupling_is_better_than_common_pca() -> None:
    # true retained variance against the limit of infinite coupling, five and ten tasks of ten
    # rows; the best held-out mean alone reaches t = 0.2 on these problems, the default 10.9
    gains = []
    for T, seed, k in itertools.product((5, 10), range(30), (1, 2, 3)):
        problem = tilted_gaussians(np.random.default_rng([T, seed]), n_tasks=T)
        chosen = fit(problem.tasks, k=k, selection="cv", seed=seed)
        common = CommonPCA().fit(
            problem.tasks, CommonPCA.Params(k=k), trace=Trace(), rng=np.random.default_rng(0)
        )
        gains.append(mean_true_ratio(chosen, problem) - mean_true_ratio(common, problem))
    assert np.mean(gains) / (np.std(gains, ddof=1) / np.sqrt(len(gains))) >= 3.0


def test_the_default_of_the_absolute_scale_is_that_of_the_relative_one() -> None:
    tasks = tilted_gaussians(np.random.default_rng(5), n_tasks=4).tasks
    unit = fit(tasks, lam=1.0).fit_info["lam"]
    relative = fit(tasks, selection="cv", grid=(0.5, 5.0, 50.0), ends="none")
    absolute = fit(
        tasks,
        selection="cv",
        grid=tuple(unit * c for c in (0.5, 5.0, 50.0)),
        ends="none",
        lam_scale="absolute",
    )
    assert absolute.fit_info["lam"] == pytest.approx(relative.fit_info["lam"])


def test_unrelated_tasks_choose_less_coupling_than_related_ones() -> None:
    related = tilted_gaussians(np.random.default_rng(0), n_tasks=10, n_samples=40, tilt=0.05).tasks
    unrelated = unrelated_gaussians(np.random.default_rng(0), n_tasks=10, n_samples=40).tasks
    a, b = (fit(tasks, selection="cv", ends="none") for tasks in (related, unrelated))
    assert a.fit_info["coupling"] > b.fit_info["coupling"]
    assert len(a.fit_info["cv_rvr"]) == len(a.fit_info["cv_couplings"]) == 13


def test_ends_of_the_grid_can_be_selected() -> None:
    tasks = tilted_gaussians(np.random.default_rng(1), n_tasks=6, tilt=0.0).tasks
    model = fit(tasks, selection="cv", grid=(1e-6,), ends="common")
    assert model.fit_info["lam"] is None
    common = CommonPCA().fit(tasks, CommonPCA.Params(), trace=Trace(), rng=np.random.default_rng(0))
    np.testing.assert_allclose(model.U, common.U, atol=1e-12)
    rows = Task.from_rows("new", tasks.tasks[0].X)
    assert RMTPCA().adapt(model, rows).tasks[-1] == "new"


def test_held_out_ratio_of_one_row_is_defined() -> None:
    row = Task.from_rows("t", np.array([[3.0, 4.0]]))
    ratio = held_out_ratio(row, mean=np.zeros(2), U=np.array([[1.0, 0.0]]))
    assert ratio == pytest.approx(9 / 25)


def test_relative_coupling_is_the_documented_multiple() -> None:
    tasks = tilted_gaussians(np.random.default_rng(2), n_tasks=4).tasks
    model = fit(tasks, lam=3.0)
    expected = 3.0 * model.total_variance.mean() / 6 / 3
    assert model.fit_info["lam"] == pytest.approx(expected)
    again = fit(tasks, lam=expected, lam_scale="absolute")
    assert np.all(distances(model, again) <= SUBSPACE_ATOL)


def test_a_new_task_takes_its_exact_block_maximiser() -> None:
    problem = tilted_gaussians(np.random.default_rng(3), n_tasks=6)
    known = TaskSet(problem.tasks.tasks[:5])
    new = problem.tasks.tasks[5]
    model = fit(known, lam=3.0)
    adapted = RMTPCA().adapt(model, new)
    A = np.cov(new.X, rowvar=False) + model.fit_info["lam"] * sum(U @ U.T for U in model.U)
    top = np.linalg.eigh(A)[1][:, -2:]
    assert projector_distance(adapted.U[5].T, top.T) <= SUBSPACE_ATOL
    np.testing.assert_array_equal(adapted.U[:5], model.U)
    np.testing.assert_allclose(adapted.mean_of(new.name), new.X.mean(axis=0))


@pytest.mark.parametrize("c", [0.0, 3.0])
def test_a_new_task_is_coupled_to_the_only_task_of_a_model(c) -> None:
    first, new = tilted_gaussians(np.random.default_rng(3), n_tasks=2).tasks.tasks
    adapted = RMTPCA().adapt(fit(TaskSet((first,)), lam=c), new)
    C = [np.cov(task.X, rowvar=False) for task in (first, new)]
    lam = c * (np.trace(C[0]) + np.trace(C[1])) / 2 / 6  # what a fit of both would have
    P = adapted.U[0] @ adapted.U[0].T
    top = np.linalg.eigh(C[1] + lam * P)[1][:, -2:]
    assert projector_distance(adapted.U[1].T, top.T) <= SUBSPACE_ATOL
    assert adapted.fit_info["lam"] == pytest.approx(lam)
    assert adapted.metrics["rvr"][new.name] == pytest.approx(
        np.trace(top.T @ C[1] @ top) / np.trace(C[1])
    )


@pytest.mark.parametrize(("d", "n"), [(6, 10), (40, 5)], ids=["narrow", "wide"])
@pytest.mark.parametrize("selection", ["given", "cv"])
def test_as_many_dimensions_as_features_retain_everything(d, n, selection) -> None:
    rng = np.random.default_rng(4)
    tasks = TaskSet(tuple(Task.from_rows(f"t{i}", rng.standard_normal((n, d))) for i in range(3)))
    model = fit(tasks, k=d, selection=selection)
    for task in tasks:
        assert model.metrics["rvr"][task.name] == pytest.approx(1.0)
        back = model.inverse_transform(model.transform(task.X, task=task.name), task=task.name)
        np.testing.assert_allclose(back, task.X, atol=1e-10)


def test_more_dimensions_than_features_are_rejected() -> None:
    tasks = tilted_gaussians(np.random.default_rng(4), n_tasks=2).tasks
    with pytest.raises(InvalidParams, match="k = 7 is more than n_features = 6") as caught:
        fit(tasks, k=7)
    assert caught.value.field == "k"


@pytest.mark.parametrize("size", [1e-40, 1e12, 1e40])
def test_absolute_coupling_has_the_units_of_a_variance(size) -> None:
    tasks = tilted_gaussians(np.random.default_rng(2), n_tasks=4).tasks
    scaled = TaskSet(tuple(Task.from_rows(task.name, size * task.X) for task in tasks))
    model = fit(tasks, lam=3.0, lam_scale="absolute")
    again = fit(scaled, lam=3.0 * size**2, lam_scale="absolute")
    assert np.all(distances(model, again) <= SUBSPACE_ATOL)


@pytest.mark.parametrize("starts", ["single", "many"])
@pytest.mark.parametrize(("lam", "scale"), [(1e12, "relative"), (1e100, "absolute")])
def test_a_huge_coupling_gives_the_top_of_the_sum_from_any_start(starts, lam, scale) -> None:
    # the covariances are lost in the rounding of J: every common subspace would look as good
    tasks = tilted_gaussians(np.random.default_rng(0), n_tasks=4).tasks
    model = fit(tasks, lam=lam, lam_scale=scale, starts=starts)
    top = np.linalg.eigh(sum(np.cov(task.X, rowvar=False) for task in tasks))[1][:, -2:]
    for task in tasks:
        assert projector_distance(model.basis_of(task.name).T, top.T) <= SUBSPACE_ATOL


def test_more_folds_than_rows_are_rejected_before_numbers_are_read() -> None:
    tasks = tilted_gaussians(np.random.default_rng(5), n_tasks=2, n_samples=6).tasks
    params = RMTPCAParams(selection="cv", n_folds=7)
    with pytest.raises(InvalidData, match=r"'task-1' has 6 rows; .* 7 folds needs at least 7"):
        RMTPCA().check(tasks.summaries(), params)
    stacks = covariance_tasks(np.random.default_rng(0), n_tasks=2, n_matrices=1)
    with pytest.raises(InvalidData, match="1 covariance matrices"):
        RMTPCA().check(stacks.summaries(), RMTPCAParams(selection="cv"))


def test_fewer_than_two_rows_in_a_training_fold_are_rejected() -> None:
    params = RMTPCAParams(selection="cv", n_folds=2)
    few, enough = (
        tilted_gaussians(np.random.default_rng(6), n_tasks=3, n_samples=n).tasks.summaries()
        for n in (3, 4)
    )
    with pytest.raises(InvalidData, match=r"has 3 rows; cross-validation with 2 folds .* least 4"):
        RMTPCA().check(few, params)
    RMTPCA().check(enough, params)


@pytest.mark.parametrize("n_samples", [4, 5])
def test_as_few_rows_as_allowed_can_be_cross_validated(n_samples) -> None:
    tasks = tilted_gaussians(np.random.default_rng(6), n_tasks=3, n_samples=n_samples).tasks
    assert fit(tasks, selection="cv").fit_info["selection"] == "cv"


@pytest.mark.parametrize(
    "values",
    [{"k": 0}, {"lam": -1.0}, {"rtol": 0.0}, {"k": True}, {"lam": float("nan")}, {"grid": []},
     {"grid": [-1.0]}, {"n_folds": 1}, {"starts": "some"}],
)  # fmt: skip
def test_params_out_of_bounds_are_rejected(values) -> None:
    with pytest.raises(ValidationError):
        RMTPCAParams(**values)


def test_stopping_early_causes_a_warning() -> None:
    tasks = tilted_gaussians(np.random.default_rng(7), n_tasks=6).tasks
    assert fit(tasks).warnings == ()
    model = fit(tasks, max_iter=1)
    assert any("increase max_iter" in warning for warning in model.warnings)


def test_too_few_rows_for_k_cause_a_warning_only_without_coupling() -> None:
    few, many = tilted_gaussians(np.random.default_rng(8), n_tasks=2, n_samples=6).tasks
    tasks = TaskSet((Task.from_rows("few", few.X[:2]), many))
    alone, coupled = (fit(tasks, k=2, lam=lam).warnings for lam in (0.0, 1.0))
    assert any("'few'" in one and "at most k = 2 rows" in one for one in alone)
    assert not any("rows, which do not determine" in one for one in coupled)


def test_inner_folds_are_random_and_keep_equal_rows_together() -> None:
    tasks = tilted_gaussians(np.random.default_rng(8), n_tasks=3, n_samples=7).tasks
    for fold, split in enumerate(inner_splits(tasks.tasks, n_folds=3, seed=5)):
        for task in tasks:
            held = np.random.default_rng([5, 7]).permutation(7) % 3 == fold
            np.testing.assert_array_equal(split.test[task.name].X, task.X[held])
            np.testing.assert_array_equal(split.train[task.name].X, task.X[~held])
    order = np.random.default_rng(9).permutation(7)
    copy = Task.from_rows("copy", tasks.tasks[0].X[order])
    for split in inner_splits([*tasks.tasks, copy], n_folds=3, seed=5):
        known = {tuple(row) for task in split.train for row in task.X}
        assert known.isdisjoint(tuple(row) for task in split.test for row in task.X)
        assert min(task.n_samples for task in split.train) >= 2
    assert fit(TaskSet((*tasks, copy)), selection="cv").fit_info["selection"] == "cv"


# --- real data ---------------------------------------------------------------------------------

DATA = Path(os.environ.get("SIBLING_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
EEG = DATA / "eeg_ssvep12.npz"


@pytest.mark.skipif(not EEG.exists(), reason="needs eeg_ssvep12.npz in the folder SIBLING_DATA")
def test_eeg_covariances_select_a_coupling() -> None:
    with np.load(EEG, allow_pickle=False) as file:
        C, y, subject = file["cov24"].astype(float), file["y"], file["task"]
    tasks = []
    for s in range(12):
        stack = C[(subject == s) & (y == 2)][:2]
        stack = stack / np.trace(stack, axis1=1, axis2=2)[:, None, None]
        tasks.append(Task.from_covariances(f"subject-{s}", stack))
    model = fit(TaskSet(tuple(tasks)), k=4, selection="cv")
    assert model.fit_info["selection"] == "cv"
    assert min(model.metrics["rvr"].values()) > 0.5
