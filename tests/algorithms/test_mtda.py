import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh, qr
from scipy.optimize import brentq

from algorithms.baselines.discriminants import NullSpaceLDA, TraceRatioLDA
from algorithms.families.projections.scatters import estimate_scatters
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtda import MTDA
from algorithms.mtda.alternation import best_factor, parts_from
from algorithms.numerics.eigen import MIN_GRAM_RATIO, svd_of_centred

#: Tolerances against a solver in the full spaces.
ALPHA_ATOL = 1e-10
#: The alternation against the exact solver.
ALTERNATION_ATOL = 1e-9
#: Rounding of the objective from step to step.
MONOTONE_ATOL = 1e-12
#: Subspaces of separated eigenvalues by two routes.
SUBSPACE_ATOL = 1e-6

#: Widths, rows per class, classes of three tasks. "many": n > d_i; "few": n < d_i in all but the
#: first task; "tiny": n < d_i everywhere, where the optimum may be 1.
SHAPES = {
    "many": ((5, 20, 3), (8, 15, 4), (12, 10, 2)),
    "few": ((4, 9, 3), (40, 5, 4), (60, 4, 3)),
    "tiny": ((30, 2, 4), (50, 3, 5), (45, 2, 6)),
}


def made(seed, shape="many", *, spread=1.0) -> TaskSet:
    """Return tasks of other widths and classes whose class means are drawn apart."""
    rng = np.random.default_rng(seed)
    tasks = []
    for i, (d, n, c) in enumerate(SHAPES[shape]):
        y = np.repeat(np.arange(c), n)
        centres = spread * rng.standard_normal((c, d))
        X = centres[y] + rng.standard_normal((n * c, d)) * rng.uniform(0.5, 2, d)
        tasks.append(Task.from_rows(f"t{i}", X, y=np.array([f"class {k}" for k in y])))
    return TaskSet(tuple(tasks))


def fit(tasks, *, seed=0, trace=None, **values):
    params = MTDA.Params(**{"gamma": 0.0, "standardise": "center", **values})
    return MTDA().fit(tasks, params, trace=trace or Trace(), rng=np.random.default_rng(seed))


def scatter(task, gamma=0.0):
    """Return S_b and S_t of a task in its full space, from their definitions."""
    X = task.X - task.X.mean(axis=0)
    n, d = X.shape
    S_b = np.zeros((d, d))
    for label in np.unique(task.y):
        m = X[task.y == label].mean(axis=0)
        S_b += np.mean(task.y == label) * np.outer(m, m)
    S_t = X.T @ X / n
    return S_b, S_t + gamma * np.trace(S_t) / d * np.eye(d)


def full_space_alpha(tasks, d, gamma=0.0) -> float:
    """Return the root of F(α) by Brent's method on dense eigenvalues: no span, no Newton.

    A task with fewer than d features has all of them.
    """
    matrices = [scatter(task, gamma) for task in tasks]

    def gain(alpha):
        tops = [np.linalg.eigvalsh(S_b - alpha * S_t)[::-1][:d] for S_b, S_t in matrices]
        return sum(top.sum() for top in tops)

    if gain(1.0) > -1e-13:
        return 1.0
    return brentq(gain, 0.0, 1.0, xtol=1e-15, rtol=8.9e-16)


def ratio(model, tasks, gamma=0.0) -> float:
    parts = np.zeros(2)
    for task in tasks:
        S_b, S_t = scatter(task, gamma)
        U = model.part_of(task.name).U
        parts += np.trace(U.T @ S_b @ U), np.trace(U.T @ S_t @ U)
    return parts[0] / parts[1]


def orthonormal(rng, p, q):
    return np.linalg.qr(rng.standard_normal((p, q)))[0]


def assert_same_subspace(U, V, atol=SUBSPACE_ATOL) -> None:
    assert np.abs(U @ U.T - V @ V.T).max() <= atol


# ---- the exact solver ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_alpha_is_that_of_the_full_spaces(shape, d, gamma) -> None:
    tasks = made(1, shape, spread=0.7)
    model = fit(tasks, d=d, gamma=gamma)
    assert model.fit_info["alpha"] == pytest.approx(
        full_space_alpha(tasks, d, gamma), abs=ALPHA_ATOL
    )
    # and the projections have the ratio that is claimed
    assert ratio(model, tasks, gamma) == pytest.approx(model.fit_info["alpha"], abs=ALPHA_ATOL)


def test_no_orthonormal_projections_have_a_larger_ratio() -> None:
    tasks = made(2, "few")
    alpha = fit(tasks, d=3).fit_info["alpha"]
    rng = np.random.default_rng(0)
    for _ in range(200):
        parts = np.zeros(2)
        for task in tasks:
            S_b, S_t = scatter(task)
            U = orthonormal(rng, task.n_features, 3)
            parts += np.trace(U.T @ S_b @ U), np.trace(U.T @ S_t @ U)
        assert parts[0] / parts[1] <= alpha


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("d", [1, 3, 7])
@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0])
def test_newton_needs_few_steps_and_increases_the_ratio(shape, d, gamma) -> None:
    trace = Trace()
    fit(made(3, shape, spread=0.7), d=d, gamma=gamma, trace=trace)
    objectives = [step.objective for step in trace.history]
    assert 1 <= trace.history[-1].iteration <= 6
    assert np.diff(objectives).min() >= -MONOTONE_ATOL
    assert trace.stop_reason == "converged"


def test_fillers_are_constant_on_the_training_rows_and_change_no_prediction() -> None:
    tasks = made(4, "few", spread=0.3)
    kept = fit(tasks, d=12, gamma=0.1, null="keep").part_of("t1")
    Z = kept.prototypes
    is_filler = np.abs(Z).max(axis=0) < 1e-9
    assert 0 < is_filler.sum() < 12
    model = fit(tasks, d=12, gamma=0.1)
    rows = np.random.default_rng(0).standard_normal((50, 40))
    without = rows @ kept.U[:, ~is_filler]
    near = np.linalg.norm(without[:, None] - (tasks["t1"].X @ kept.U[:, ~is_filler])[None], axis=2)
    np.testing.assert_array_equal(model.predict(rows, task="t1"), tasks["t1"].y[near.argmin(1)])


def test_excluding_the_null_space_takes_negative_directions_of_the_span() -> None:
    tasks = made(4, "few", spread=0.3)
    alphas = {}
    for null in ("keep", "exclude"):
        model = fit(tasks, d=12, null=null)
        alphas[null] = model.fit_info["alpha"]
        part, scatters = model.part_of("t1"), estimate_scatters(tasks["t1"])
        inside = np.linalg.norm(scatters.V.T @ part.U, axis=0)
        assert (inside.min() > 1 - 1e-9) == (null == "exclude")
    assert alphas["exclude"] < alphas["keep"]


def test_the_span_suffices_iff_d_eigenvalues_are_not_negative() -> None:
    for spread in (0.2, 2.0):
        tasks = made(5, "few", spread=spread)
        for d in (1, 2, 4):
            kept = fit(tasks, d=d, null="keep").fit_info["alpha"]
            model = fit(tasks, d=d, null="exclude")
            alpha = model.fit_info["alpha"]
            enough = all(
                s.rank == s.n_features  # there is no outside
                or np.sum(
                    np.linalg.eigvalsh(s.between.T @ s.between - kept * np.diag(s.total)) >= -1e-12
                )
                >= d
                for s in map(estimate_scatters, tasks)
            )
            assert (kept - alpha < 1e-10) == enough


def test_ridge_and_shifts_move_all_eigenvalues_equally() -> None:
    S_b, S_t = scatter(made(6).tasks[1])
    a, b, alpha = 0.7, 1.3, 0.4
    plain = np.linalg.eigh(S_b - alpha * S_t)
    moved = np.linalg.eigh(S_b + a * np.eye(8) - alpha * (S_t + b * np.eye(8)))
    np.testing.assert_allclose(moved[0], plain[0] + a - alpha * b, atol=1e-12)
    np.testing.assert_allclose(np.abs(moved[1].T @ plain[1]), np.eye(8), atol=1e-9)


# ---- reductions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_task_is_the_trace_ratio_lda(d) -> None:
    task = made(7).tasks[1]  # four classes
    alone = TaskSet((task,))
    model = fit(alone, d=d)
    alpha = full_space_alpha(alone, d)
    S_b, S_t = scatter(task)
    top = np.linalg.eigh(S_b - alpha * S_t)[1][:, ::-1][:, :d]
    assert_same_subspace(model.part_of("t1").U, top)
    params = TraceRatioLDA.Params(d=d, gamma=0.0, standardise="center")
    lda = TraceRatioLDA().fit(alone, params, trace=Trace(), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(model.part_of("t1").U, lda.part_of("t1").U)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_degenerate_regime_is_null_space_lda(d) -> None:
    tasks = made(8, "tiny")
    model = fit(tasks, d=d)
    assert model.fit_info["alpha"] == pytest.approx(1.0, abs=1e-12)
    assert any("ratio is 1" in warning for warning in model.warnings)
    params = NullSpaceLDA.Params(d=d, standardise="center")
    null = NullSpaceLDA().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    for task in tasks:
        U = model.part_of(task.name).U
        assert_same_subspace(U, null.part_of(task.name).U)
        # every class is one point
        for label in np.unique(task.y):
            Z = task.X[task.y == label] @ U
            np.testing.assert_allclose(Z, Z[:1].repeat(len(Z), 0), atol=1e-9)


def test_fillers_widen_the_degenerate_regime() -> None:
    tasks = made(8, "tiny")
    model = fit(tasks, d=9)  # above every c - 1
    assert model.fit_info["alpha"] == pytest.approx(1.0, abs=1e-12)
    params = NullSpaceLDA.Params(d=9, standardise="center")
    null = NullSpaceLDA().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    for task in tasks:
        rows = np.random.default_rng(0).standard_normal((20, task.n_features))
        np.testing.assert_array_equal(
            model.predict(rows, task=task.name), null.predict(rows, task=task.name)
        )
    assert fit(tasks, d=9, null="exclude").fit_info["alpha"] < 0.99
    # up to the smallest c - 1 + d_i - r and no further
    every = map(estimate_scatters, tasks)
    last = min(s.n_classes - 1 + s.n_features - s.rank for s in every)
    assert fit(tasks, d=last).fit_info["alpha"] == pytest.approx(1.0, abs=1e-12)
    assert fit(tasks, d=last + 1).fit_info["alpha"] < 0.99


def test_the_tasks_are_coupled_only_by_the_ratio() -> None:
    tasks = made(9)
    model = fit(tasks, d=2)
    for task in tasks:
        S_b, S_t = scatter(task)
        top = np.linalg.eigh(S_b - model.fit_info["alpha"] * S_t)[1][:, ::-1][:, :2]
        assert_same_subspace(model.part_of(task.name).U, top)


# ---- P and d' -----------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 4), more=st.integers(0, 4))
@settings(max_examples=50, deadline=None)
def test_any_projection_is_reached_with_any_common_part(seed, d, more) -> None:
    rng = np.random.default_rng(seed)
    d_prime = d + more
    U = orthonormal(rng, 9, d_prime)  # its first d columns are wanted, the rest is a completion
    P = orthonormal(rng, d_prime, d)
    W = parts_from(U, P)
    np.testing.assert_allclose(W.T @ W, np.eye(d_prime), atol=1e-12)
    np.testing.assert_allclose(W @ P, U[:, :d], atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("d_prime", [2, 3, 4, 300])
@pytest.mark.parametrize("null", ["keep", "exclude"])
@pytest.mark.quick(9)
def test_the_alternation_reaches_the_exact_optimum(shape, d_prime, null) -> None:
    tasks = made(10, shape, spread=0.5)
    given = {"d": 2, "null": null, "gamma": 0.1}
    exact = fit(tasks, **given)
    for seed in range(3):
        trace = Trace()
        model = fit(tasks, **given, solver="alternating", d_prime=d_prime, seed=seed, trace=trace)
        objectives = np.array([step.objective for step in trace.history])
        assert np.diff(objectives).min() >= -MONOTONE_ATOL
        assert model.fit_info["alpha"] == pytest.approx(
            exact.fit_info["alpha"], abs=ALTERNATION_ATOL
        )
        for task in tasks:
            assert_same_subspace(model.part_of(task.name).U, exact.part_of(task.name).U)


@pytest.mark.parametrize(("d", "d_prime"), [(5, 5), (5, 7), (3, 4)])
@pytest.mark.parametrize("n_tasks", [1, 2])
@pytest.mark.quick(2)
def test_the_alternation_takes_the_last_useful_direction_before_fillers(
    d, d_prime, n_tasks
) -> None:
    # three classes in a span of three dimensions of nine. With six fillers for d <= 5 columns, the
    # largest ratio is that of the best single direction of all tasks; there its eigenvalue is 0,
    # and so are those of the fillers
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y = np.repeat(["a", "b", "c"], 4)
        inside = [
            Task.from_rows(f"t{i}", rng.standard_normal((12, 3)), y=y) for i in range(n_tasks)
        ]
        tasks = TaskSet(
            tuple(
                Task.from_rows(task.name, task.X @ rng.standard_normal((3, 9)), y=y)
                for task in inside
            )
        )
        trace = Trace()
        model = fit(
            tasks, d=d, d_prime=d_prime, gamma=0.0, solver="alternating", seed=seed, trace=trace
        )
        objectives = np.array([step.objective for step in trace.history])
        assert np.diff(objectives).min() >= -MONOTONE_ATOL
        best = max(eigh(*scatter(task), eigvals_only=True)[-1] for task in inside)
        assert model.fit_info["alpha"] == pytest.approx(best, abs=ALTERNATION_ATOL)


def test_the_parts_of_the_alternation_are_a_factorisation() -> None:
    tasks = made(11)
    model = fit(tasks, d=2, solver="alternating", d_prime=4)
    assert model.P.shape == (4, 2)
    np.testing.assert_allclose(model.P.T @ model.P, np.eye(2), atol=1e-12)
    for task in tasks:
        part = model.part_of(task.name)
        np.testing.assert_allclose(part.W.T @ part.W, np.eye(4), atol=1e-12)
        np.testing.assert_allclose(part.W @ model.P, part.U, atol=1e-12)
    other = fit(tasks, d=2, solver="alternating", d_prime=4, seed=5)
    assert np.abs(other.P - model.P).max() > 0.1  # P is arbitrary, the projections are not
    np.testing.assert_allclose(other.part_of("t0").U, model.part_of("t0").U, atol=1e-6)


def test_the_alternation_lowers_d_to_what_every_task_has() -> None:
    model = fit(made(12), d=7, solver="alternating")
    assert model.P.shape[1] == 5
    assert "d was lowered for 3 of 3 tasks" in model.warnings[0]


# ---- Theorem 1 ----------------------------------------------------------------------------------

A = np.diag([3.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
B = np.diag([2.5, 1.5, 1.0, 0.25])


def turned(angle, i, j):
    Q = np.eye(4)
    Q[[i, j], [i, j]] = np.cos(angle)
    Q[i, j], Q[j, i] = -np.sin(angle), np.sin(angle)
    return Q


def theorem_1_value(W, A=A, B=B):
    return np.trace(W.T @ A @ W @ B)


def test_theorem_1_fails_for_a_rotation_that_does_not_commute() -> None:
    rng = np.random.default_rng(0)
    # in bases of their own, so that nothing hangs on the axes
    E, G = orthonormal(rng, 8, 8), orthonormal(rng, 4, 4)
    dense_A, dense_B = E @ A @ E.T, G @ B @ G.T
    best = E[:, :4] @ G.T
    assert theorem_1_value(best, dense_A, dense_B) == pytest.approx(10.25)
    assert np.sum(np.linalg.eigvalsh(A)[:3:-1] * np.linalg.eigvalsh(B)[::-1]) == 10.25
    Q = G @ turned(np.radians(42.8), 0, 3) @ G.T
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-12)
    assert theorem_1_value(best @ Q, dense_A, dense_B) == pytest.approx(8.17, abs=0.005)
    # what commutes with B keeps the value
    signs = G @ np.diag([1, -1, -1, 1]) @ G.T
    assert theorem_1_value(best @ signs, dense_A, dense_B) == pytest.approx(10.25)


def test_theorem_1_needs_both_in_descending_order() -> None:
    in_order = np.eye(8)[:, :4]
    assert theorem_1_value(in_order) == 10.25
    assert theorem_1_value(in_order[:, ::-1]) < 6


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_corrected_theorem_1_is_the_sum_of_products(seed, d) -> None:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((8, 8))
    A = A + A.T
    P = orthonormal(rng, 4, d)
    W = best_factor(A, P, between=np.zeros((1, 8)), tie=0.0)
    top = np.linalg.eigvalsh(A)[::-1][:d].sum()
    assert theorem_1_value(W, A, P @ P.T) == pytest.approx(top)
    for _ in range(20):
        assert theorem_1_value(orthonormal(rng, 8, 4), A, P @ P.T) <= top + 1e-9


def table_1_as_printed(tasks, *, d, d_prime):
    """Return the changes of the objective from step to step, and its last value."""
    matrices = [scatter(task) for task in tasks]
    rng = np.random.default_rng(0)
    P = orthonormal(rng, d_prime, d)
    W = [orthonormal(rng, task.n_features, d_prime) for task in tasks]

    def parts():
        U = [W_i @ P for W_i in W]
        return np.array(
            [[np.trace(u.T @ S @ u) for S in pair] for u, pair in zip(U, matrices, strict=True)]
        )

    def objective():
        between, total = parts().sum(axis=0)
        return between / total

    drops = []
    for _ in range(10):
        for i, (S_b, S_t) in enumerate(matrices):
            for _ in range(5):
                before = objective()
                S = S_b - before * S_t
                W_i = parts_from(np.linalg.eigh(S)[1][:, ::-1][:, :d_prime], P)
                # steps 2.3 and 2.4: turn W_i to the principal axes of its own S_t
                axes = np.linalg.eigh(W_i.T @ S_t @ W_i)[1][:, ::-1]
                W[i] = W_i @ axes
                drops.append(objective() - before)
        M = [sum(w.T @ S[k] @ w for w, S in zip(W, matrices, strict=True)) for k in (0, 1)]
        for _ in range(20):
            P = np.linalg.eigh(M[0] - objective() * M[1])[1][:, ::-1][:, :d]
    return drops, objective()


def test_table_1_as_printed_is_not_monotone_and_depends_on_the_intermediate_dimension() -> None:
    tasks = made(13)
    alpha = fit(tasks, d=2).fit_info["alpha"]
    ends = []
    for d_prime in (3, 4, 5):
        drops, end = table_1_as_printed(tasks, d=2, d_prime=d_prime)
        assert min(drops) < -1e-3
        assert end < alpha - 1e-3
        ends.append(end)
    assert np.ptp(ends) > 1e-3


# ---- laws ---------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 20), gamma=st.sampled_from([0.0, 0.1, 5.0]))
@settings(max_examples=40, deadline=None)
def test_projections_have_orthonormal_columns(seed, d, gamma) -> None:
    shape = list(SHAPES)[seed % 3]
    model = fit(made(seed, shape), d=d, gamma=gamma, standardise="scale")
    for part in model.parts:
        np.testing.assert_allclose(part.U.T @ part.U, np.eye(part.U.shape[1]), atol=1e-10)
        assert part.U.shape[1] == min(d, part.U.shape[0])


@given(seed=st.integers(0, 2**32 - 1), standardise=st.sampled_from(["center", "scale"]))
@settings(max_examples=25, deadline=None)
def test_rotated_features_change_nothing(seed, standardise) -> None:
    rng = np.random.default_rng(seed)
    tasks = made(seed, "few")
    turns = [qr(rng.standard_normal((t.n_features, t.n_features)))[0] for t in tasks]
    turned_tasks = TaskSet(
        tuple(
            Task.from_rows(t.name, t.X @ Q + 3.0, y=t.y) for t, Q in zip(tasks, turns, strict=True)
        )
    )
    values = {"d": 4, "gamma": 0.1, "standardise": standardise}
    here, there = fit(tasks, **values), fit(turned_tasks, **values)
    assert here.fit_info["alpha"] == pytest.approx(there.fit_info["alpha"], abs=1e-9)
    for task, Q in zip(tasks, turns, strict=True):
        rows = rng.standard_normal((10, task.n_features)) * 2
        np.testing.assert_array_equal(
            here.predict(rows, task=task.name), there.predict(rows @ Q + 3.0, task=task.name)
        )


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_renamed_labels_rename_the_predictions(seed) -> None:
    tasks = made(seed)
    # an order of its own, and integers in place of strings
    renamed = {f"class {k}": 100 - 7 * k for k in range(6)}
    others = TaskSet(
        tuple(Task.from_rows(t.name, t.X, y=[renamed[str(v)] for v in t.y]) for t in tasks)
    )
    here, there = fit(tasks, d=3), fit(others, d=3)
    for task in tasks:
        rows = np.random.default_rng(seed).standard_normal((20, task.n_features))
        names = here.predict(rows, task=task.name)
        assert [renamed[str(v)] for v in names] == there.predict(rows, task=task.name).tolist()


@given(order=st.permutations(range(3)), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_permuted_tasks_have_the_same_projections(order, seed) -> None:
    tasks = made(seed)
    permuted = TaskSet(tuple(tasks.tasks[i] for i in order))
    for solver in ("exact", "alternating"):
        here, there = (fit(t, d=2, solver=solver) for t in (tasks, permuted))
        for name in tasks.names:
            np.testing.assert_array_equal(here.part_of(name).U, there.part_of(name).U)


def test_the_units_of_a_scaled_task_have_no_effect() -> None:
    tasks = made(14)
    other = TaskSet(
        (Task.from_rows("t0", tasks.tasks[0].X * 1e6, y=tasks.tasks[0].y), *tasks.tasks[1:])
    )
    here, there = (fit(t, d=2, standardise="scale").fit_info["alpha"] for t in (tasks, other))
    assert here == pytest.approx(there, abs=1e-12)
    here, there = (fit(t, d=2, standardise="center").fit_info["alpha"] for t in (tasks, other))
    assert abs(here - there) > 1e-3
    scaled = fit(tasks, standardise="features")
    np.testing.assert_allclose(scaled.part_of("t1").references.std(axis=0), 1.0)


# ---- traps --------------------------------------------------------------------------------------


def test_one_class_is_rejected_with_the_task() -> None:
    task = made(15).tasks[0]
    lonely = Task.from_rows("lonely", task.X, y=["unlike"] * task.n_samples)
    with pytest.raises(InvalidData, match="'lonely' has rows of one class only") as caught:
        fit(TaskSet((task, lonely)))
    assert caught.value.task == "lonely"
    with pytest.raises(InvalidData, match="'single' has rows of one class only"):
        fit(TaskSet((Task.from_rows("single", np.ones((1, 3)), y=["a"]),)))


def test_a_value_that_is_not_a_number_is_rejected_before_the_fit() -> None:
    with pytest.raises(InvalidData, match="task 't', row 1, column 0 is nan"):
        Task.from_rows("t", [[1.0, 2.0], [np.nan, 1.0]], y=["a", "b"])


def test_a_class_of_one_row_is_allowed() -> None:
    task = made(15).tasks[1]
    y = task.y.copy()
    y[0] = "alone"
    tasks = TaskSet((Task.from_rows("t1", task.X, y=y),))
    for selection in ("given", "cv"):
        model = fit(tasks, d=3, gamma=0.1, selection=selection)
        assert model.predict(task.X[:1], task="t1").tolist() == ["alone"]


def test_two_rows_of_two_classes_give_the_line_between_them() -> None:
    X = np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0]])
    model = fit(TaskSet((Task.from_rows("t", X, y=["a", "b"]),)), d=1)
    np.testing.assert_allclose(np.abs(model.part_of("t").U[:, 0]), [1, 0, 0], atol=1e-12)
    assert model.predict([[0.1, 5, 5], [1.9, -5, 0]], task="t").tolist() == ["a", "b"]


@pytest.mark.parametrize("null", ["keep", "exclude"])
@pytest.mark.parametrize("solver", ["exact", "alternating"])
def test_constant_rows_cause_a_warning_and_are_predicted_as_the_first_label(null, solver) -> None:
    flat = Task.from_rows("flat", np.full((6, 4), 0.1), y=["b", "b", "c", "c", "a", "a"])
    model = fit(TaskSet((flat,)), null=null, solver=solver)
    assert any("no variance" in warning for warning in model.warnings)
    rows = np.random.default_rng(0).standard_normal((3, 4))
    assert model.predict(rows, task="flat").tolist() == ["a", "a", "a"]
    assert model.metrics == {"trace_ratio": {"flat": 0.0}}
    both = fit(TaskSet((flat, *made(16))), null=null, d=2)
    assert both.fit_info["alpha"] == pytest.approx(fit(made(16), null=null, d=2).fit_info["alpha"])


def test_ties_are_broken_by_distance_in_the_full_space_then_by_label_order() -> None:
    # the second column is constant within classes and over them: only the first projects
    X = np.array([[0.0, 3.0], [0.0, -3.0], [2.0, 3.0], [2.0, -3.0]])
    model = fit(TaskSet((Task.from_rows("t", X, y=["b", "b", "a", "a"]),)), d=1)
    assert model.fit_info["alpha"] == pytest.approx(1.0)
    # in the middle: equally near after projection, and before; "a" sorts first
    assert model.predict([[1.0, 0.0]], task="t").tolist() == ["a"]
    # two classes on one point after projection: the full space decides
    Y = np.array([[0.0, 1.0], [0.0, -1.0], [4.0, 1.0], [4.0, -1.0]])
    tied = fit(TaskSet((Task.from_rows("t", Y, y=["low", "top", "far", "far"]),)), d=1)
    assert tied.predict([[0.1, 0.2], [0.1, -0.2]], task="t").tolist() == ["low", "top"]


def test_dimensions_above_the_features_are_capped_per_task_with_a_warning() -> None:
    tasks = made(17)
    model = fit(tasks, d=9)
    assert [part.U.shape[1] for part in model.parts] == [5, 8, 9]
    assert "d was lowered for 2 of 3 tasks" in model.warnings[0]
    assert "'t0': 5 instead of 9" in model.warnings[0]
    few = fit(made(17, "few"), d=30, null="exclude")
    assert [part.U.shape[1] for part in few.parts] == [4, 19, 11]


def test_doubled_rows_change_nothing() -> None:
    tasks = made(18)
    doubled = TaskSet(
        tuple(Task.from_rows(t.name, np.tile(t.X, (2, 1)), y=np.tile(t.y, 2)) for t in tasks)
    )
    here, there = fit(tasks, d=2), fit(doubled, d=2)
    assert here.fit_info["alpha"] == pytest.approx(there.fit_info["alpha"], abs=1e-12)
    # one row with two labels: the label that sorts first
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0], [1.0, 2.5]])
    model = fit(TaskSet((Task.from_rows("t", X, y=["z", "b", "c", "c"]),)))
    assert model.predict([[0.0, 0.0]], task="t").tolist() == ["b"]


def test_numbers_out_of_range_are_rejected() -> None:
    rows = np.array([[1e200, 0.0], [0.0, 1e200]])
    with pytest.raises(InvalidData, match="rescale"):
        fit(TaskSet((Task.from_rows("t", rows, y=["a", "b"]),)))


def test_collapsed_classes_are_predicted_by_their_point() -> None:
    tasks = made(19, "tiny")
    model = fit(tasks, d=1)
    for task in tasks:
        np.testing.assert_array_equal(model.predict(task.X, task=task.name), task.y)


# ---- model --------------------------------------------------------------------------------------


def test_distances_are_those_of_the_projected_rows() -> None:
    tasks = made(20)
    task = tasks["t1"]
    rows = np.random.default_rng(0).standard_normal((7, 8))
    for classifier in ("nearest-neighbour", "nearest-centroid"):
        model = fit(tasks, d=3, classifier=classifier)
        found = model.distances(rows, task="t1")
        Z, T = model.transform(rows, task="t1"), model.transform(task.X, task="t1")
        for k, label in enumerate(model.classes("t1")):
            own = T[task.y == label]
            own = own if classifier == "nearest-neighbour" else own.mean(axis=0, keepdims=True)
            expected = np.linalg.norm(Z[:, None] - own[None], axis=2).min(axis=1)
            np.testing.assert_allclose(found[:, k], expected, atol=1e-12)
        nearest = np.array(model.classes("t1"))[found.argmin(axis=1)]
        np.testing.assert_array_equal(model.predict(rows, task="t1"), nearest)
        assert model.distances(rows[:0], task="t1").shape == (0, 4)


def test_integer_labels_come_back_as_integers() -> None:
    X = np.random.default_rng(0).standard_normal((6, 3))
    model = fit(TaskSet((Task.from_rows("t", X, y=np.array([10, 9, 9, 10, -3, -3])),)))
    assert model.predict(X, task="t").dtype.kind == "i"
    assert model.classes("t") == (-3, 9, 10)


def test_many_rows_are_predicted_in_blocks(monkeypatch) -> None:
    tasks = made(21)
    model = fit(tasks)
    rows = np.random.default_rng(0).standard_normal((40, 5))
    whole = model.predict(rows, task="t0")
    monkeypatch.setattr("algorithms.families.projections.model.MAX_BLOCK_SIZE", 1000)
    np.testing.assert_array_equal(model.predict(rows, task="t0"), whole)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mean.0", np.zeros(3), "mean of 't0' is float64"),
        ("labels.0", np.full(60, 9, dtype=np.int64), "labels of 't0'"),
    ],
)
def test_arrays_of_the_wrong_shape_are_rejected(name, value, message) -> None:
    model = fit(made(21))
    with pytest.raises(ValueError, match=message):
        type(model).from_arrays({**model.to_arrays(), name: value}, model.header())
    header = {**model.header(), "tasks": ["t0"]}
    with pytest.raises(ValueError, match="3 parts for 1 tasks"):
        type(model).from_arrays(model.to_arrays(), header)


@pytest.mark.parametrize("solver", ["exact", "alternating"])
def test_a_new_task_is_learned_with_alpha_frozen(solver) -> None:
    tasks = made(22)
    first, new = TaskSet(tasks.tasks[:2]), tasks.tasks[2]
    model = fit(first, d=2, gamma=0.2, solver=solver)
    adapted = MTDA().adapt(model, new)
    S_b, S_t = scatter(new)
    top = np.linalg.eigh(S_b - model.fit_info["alpha"] * S_t)[1][:, ::-1][:, :2]
    assert_same_subspace(adapted.part_of("t2").U, top)
    assert adapted.fit_info["alpha"] == model.fit_info["alpha"]
    with pytest.raises(InvalidData, match="one class only"):
        MTDA().adapt(model, Task.from_rows("x", new.X, y=["unlike"] * new.n_samples))


def test_selection_prefers_few_dimensions_and_strong_shrinkage_among_equals() -> None:
    tasks = made(23, spread=20.0)  # every candidate is right on every fold
    model = fit(tasks, selection="cv", d_grid=(4, 3), gamma_grid=(0.1, 1.0))
    assert (model.fit_info["params"]["d"], model.fit_info["params"]["gamma"]) == (3, 1.0)
    assert model.fit_info["cv_error"] == [0.0] * 4
    assert model.fit_info["selection"] == "cv"


def test_selection_finds_the_dimension_that_the_classes_need() -> None:
    rng = np.random.default_rng(24)
    y = np.repeat(np.arange(3), 8)
    X = rng.standard_normal((24, 6))
    X[:, :2] += 12 * np.array([[0, 0], [1, 0], [0.5, 0.05]])[y]  # nearly on a line
    X[:, 2] += 8 * (y == 2)
    model = fit(TaskSet((Task.from_rows("t", X, y=y),)), selection="cv", d_grid=(1, 2, 5))
    assert model.fit_info["params"]["d"] == 2


def test_too_few_iterations_cause_a_warning() -> None:
    model = fit(made(25), max_iter=1)
    assert any("increase max_iter" in warning for warning in model.warnings)


# ---- faces --------------------------------------------------------------------------------------


def test_faces_of_few_images_are_in_the_degenerate_regime(data_file) -> None:
    tasks = []
    for name in ("orl", "yale"):
        with np.load(data_file(f"{name}_32x32.npz"), allow_pickle=False) as file:
            X, y = file["X"].astype(np.float64), file["y"].astype(np.int64)
        first = np.flatnonzero([np.sum(y[:i] == y[i]) < 2 for i in range(len(y))])
        tasks.append(Task.from_rows(name, X[first], y=y[first]))
    model = fit(TaskSet(tuple(tasks)), d=9)
    assert model.fit_info["alpha"] == pytest.approx(1.0, abs=1e-10)
    # full-space truth: the trace of S_w in the projected space is 0
    for task in tasks:
        S_b, S_t = scatter(task)
        U = model.part_of(task.name).U
        assert np.trace(U.T @ (S_t - S_b) @ U) <= 1e-9 * np.trace(U.T @ S_t @ U)


# ---- documentation ------------------------------------------------------------------------------


def test_every_property_in_the_notes_on_the_paper_has_tests() -> None:
    text = (Path(__file__).parents[2] / "docs/explanation/papers.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)[1]
    points = re.split(r"^\d\. \*\*", section, flags=re.MULTILINE)[1:]
    assert len(points) == 6
    for point in points:
        tests = re.findall(r"`(test_\w+)`", point)
        assert tests, point
        assert [name for name in tests if name not in globals()] == []


# ---- the decomposition of centred rows -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["few rows", "many rows", "small values", "low rank", "weighted"])
def test_the_decomposition_of_centred_rows_is_that_of_numpy(kind) -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60 if kind == "many rows" else 12, 30))
    if kind == "small values":  # too small for the squares in AAᵀ
        A[:, 1:] *= 1e-7
    if kind == "low rank":
        A[6:] = A[:6]
    w = rng.uniform(0.2, 3.0, len(A)) if kind == "weighted" else np.ones(len(A))
    A = np.sqrt(w)[:, np.newaxis] * (A - w @ A / w.sum())
    left, s, right = svd_of_centred(A)
    expected = np.linalg.svd(A, compute_uv=False)[: len(s)]
    np.testing.assert_allclose(s, expected, atol=1e-13 * s[0])
    np.testing.assert_allclose((left * s) @ right, A, atol=1e-12 * s[0])
    is_kept = s > 1e-9 * s[0]
    right = right[is_kept]
    np.testing.assert_allclose(right @ right.T, np.eye(len(right)), atol=1e-13)
    assert len(s) == (11 if kind in {"few rows", "weighted"} else min(A.shape))


def test_small_singular_values_above_the_threshold_are_precise() -> None:
    rng = np.random.default_rng(1)
    A = rng.standard_normal((20, 50)) * np.geomspace(1.0, 1e-4, 50)
    A -= A.mean(axis=0)
    A /= np.linalg.norm(A)
    left, s, right = svd_of_centred(A)
    assert len(s) == 19
    assert MIN_GRAM_RATIO < s[-1] / s[0] < 20 * MIN_GRAM_RATIO
    np.testing.assert_allclose(s, np.linalg.svd(A, compute_uv=False)[:-1], rtol=1e-10)
    np.testing.assert_allclose(right @ right.T, np.eye(19), atol=1e-13)
    np.testing.assert_allclose(right.T @ (s[:, np.newaxis] ** 2 * right), A.T @ A, atol=1e-14)
    np.testing.assert_allclose(left.T @ left, np.eye(19), atol=1e-13)
