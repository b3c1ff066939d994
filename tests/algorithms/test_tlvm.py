import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from algorithms.baselines.gplvm import GPLVM, GPLVMParams
from algorithms.baselines.transfer_pca import PPCA
from algorithms.families.latent import model as model_module
from algorithms.families.latent.gp import project
from algorithms.families.latent.model import LatentModel
from algorithms.families.latent.objective import LatentObjective, pack
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics.gaussian_divergences import DIVERGENCES
from algorithms.numerics.gp_covariances import COVARIANCES
from algorithms.registry import ALGORITHMS
from algorithms.tlvm import TLVM, TLVMParams
from algorithms.tlvm.objectives import pair_rows, transfer_terms

#: Central differences of fourth order; F is a sum of some hundred numbers.
DIFFERENCE_RTOL = 1e-7
OBJECTIVES = ("joint", "printed", "conditional", "marginal")
PAIRINGS = ("assign", "order", "spectral")
#: A small model, so that a fit takes some ten milliseconds.
SMALL = {"L": 2, "r": 12}


def fit(tasks, algorithm=None, *, trace=None, seed=0, **values):
    algorithm = algorithm or TLVM()
    return algorithm.fit(
        tasks, algorithm.Params(**values), trace=trace or Trace(), rng=np.random.default_rng(seed)
    )


def curved(rng, n, *, shift=0.0, noise=0.05, width=8):
    """Return rows near a curved surface, which is another for another shift."""
    Z = rng.uniform(-1, 1, (n, 2))
    mix = np.random.default_rng(99).standard_normal((2, width))
    return np.sin(2 * Z @ mix + shift) + noise * rng.standard_normal((n, width)) + 3.0


@pytest.fixture
def tasks() -> TaskSet:
    rng = np.random.default_rng(0)
    made = [Task.from_rows("home", curved(rng, 40))]
    made += [
        Task.from_rows(f"away-{i}", curved(rng, 15, shift=0.4 * i), y=["a", "b", "c"] * 5)
        for i in (1, 2)
    ]
    return TaskSet(tuple(made))


# --- the objective -------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_of_every_combination_agree_with_differences(objective, kernel) -> None:
    rng = np.random.default_rng(1)
    Y, Yt = rng.standard_normal((6, 4)), rng.standard_normal((5, 4))
    z = pack(np.array([0.2, -0.3, -0.5]), rng.standard_normal((11, 2)))
    direction = rng.standard_normal((3, len(z)))
    h = 1e-4
    for divergence, pairing in product(DIVERGENCES, PAIRINGS):
        params = TLVMParams(objective=objective, divergence=divergence, pairing=pairing, lam=0.7)
        F = LatentObjective(COVARIANCES[kernel], transfer_terms(Y, Yt, params), 2, 1e-2)
        _, gradient = F(z)
        for v in direction:
            steps = [F(z + t * h * v)[0] for t in (1, -1, 2, -2)]
            slope = (8 * (steps[0] - steps[1]) - (steps[2] - steps[3])) / (12 * h)
            bound = DIFFERENCE_RTOL * np.linalg.norm(gradient) * np.linalg.norm(v)
            assert abs(slope - gradient @ v) <= bound, (divergence, pairing)


def test_joint_is_the_likelihood_of_both_and_a_share_of_the_divergence() -> None:
    rng = np.random.default_rng(2)
    Y, Yt = rng.standard_normal((4, 30)), rng.standard_normal((4, 30))
    A = rng.standard_normal((8, 12))
    K = A @ A.T / 12 + 0.2 * np.eye(8)
    both = -sum(multivariate_normal(np.zeros(8), K).logpdf(y) for y in np.vstack([Y, Yt]).T)
    plain, _ = transfer_terms(Y, Yt, TLVMParams(lam=0.0))(K)
    assert plain == pytest.approx(both, rel=1e-10)
    whole, _ = transfer_terms(Y, Yt, TLVMParams(lam=0.3, pairing="order"))(K)
    kl, _, _ = DIVERGENCES["kl"](K[:4, :4], K[4:, 4:])
    assert whole == pytest.approx(both + 0.3 * 30 * kl, rel=1e-10)


def test_printed_and_marginal_are_sums_of_likelihoods() -> None:
    rng = np.random.default_rng(3)
    Y, Yt = rng.standard_normal((4, 3)), rng.standard_normal((5, 3))
    K = np.diag(rng.uniform(0.5, 2.0, 9)) + 0.1
    source, target = (
        -sum(multivariate_normal(np.zeros(len(S)), S).logpdf(y) for y in rows.T)
        for S, rows in ((K[:4, :4], Y), (K[4:, 4:], Yt))
    )
    for objective, expected in (("printed", source), ("marginal", source + target)):
        value, _ = transfer_terms(Y, Yt, TLVMParams(objective=objective, lam=0.0))(K)
        assert value == pytest.approx(expected, rel=1e-10)


def test_printed_objective_never_sees_the_target(tasks) -> None:
    # X_t ends as a copy of X, with no divergence left, be the target noise or not
    noise = np.random.default_rng(4).standard_normal((40, 8))
    others = TaskSet((tasks["home"], Task.from_rows("away-1", noise)))
    # enough latent dimensions that points need not cross on their way
    values = {"L": 8, "r": 12, "source": "home", "objective": "printed", "lam": 1.0}
    model = fit(others, **values, tolerance=1e-8, max_iter=5000)
    fit_info = model.fit_info["by_task"]["away-1"]
    assert fit_info["divergence"] < 1e-6
    assert fit_info["objective"] == pytest.approx(model.fit_info["objective"], abs=1e-3)
    # the joint objective does see it
    assert fit(others, **SMALL, source="home").fit_info["by_task"]["away-1"]["divergence"] > 1.0


def test_pairing_matters_and_the_assignment_undoes_a_permutation() -> None:
    rng = np.random.default_rng(5)
    Y = rng.standard_normal((6, 4))
    order = np.array([3, 0, 5, 1, 2, 4])
    pairs = pair_rows(Y, Y[order], pairing="assign")
    np.testing.assert_array_equal(order[pairs.target - 6], pairs.source)
    pairs = pair_rows(Y, Y[:3], pairing="order")
    np.testing.assert_array_equal(pairs.source, [0, 1, 2])
    np.testing.assert_array_equal(pairs.target, [6, 7, 8])
    K = COVARIANCES["rbf"].matrix(Y, Y, np.log([1.0, 0.1, 1.0])) + 0.05 * np.eye(6)
    moved = K[np.ix_(order, order)]
    assert DIVERGENCES["kl"](K, moved)[0] > 1.0
    terms = transfer_terms(Y, Y, TLVMParams(objective="printed", lam=1.0, pairing="spectral"))
    block = np.zeros((12, 12))
    block[:6, :6], block[6:, 6:] = K, moved
    alone = transfer_terms(Y, Y, TLVMParams(objective="printed", lam=0.0))(block)[0]
    assert terms(block)[0] == pytest.approx(alone, abs=1e-9)


def test_bernoulli_entropy_is_rejected_with_a_reason() -> None:
    with pytest.raises(ValidationError, match="no closed form between Gaussians"):
        TLVMParams(divergence="bernoulli-entropy")


# --- the model -----------------------------------------------------------------------------------


def test_transfer_is_better_than_the_source_alone_on_unseen_rows(tasks) -> None:
    rng = np.random.default_rng(6)
    lvm = fit(tasks, GPLVM(), **SMALL, source="home", rows="source")
    joint = fit(tasks, **SMALL, source="home")
    for i in (1, 2):
        rows, name = curved(rng, 100, shift=0.4 * i, noise=0.0), f"away-{i}"
        errors = [np.mean((m.reconstruct(rows, task=name) - rows) ** 2) for m in (lvm, joint)]
        assert errors[1] < 0.8 * errors[0]


def test_the_source_has_its_own_latent_variable_model(tasks) -> None:
    model = fit(tasks, **SMALL, source="home")
    alone = fit(TaskSet((tasks["home"],)), GPLVM(), **SMALL)
    rows = curved(np.random.default_rng(7), 9)
    np.testing.assert_allclose(
        model.reconstruct(rows, task="home"), alone.reconstruct(rows, task="home"), rtol=1e-10
    )


def test_by_default_the_source_is_the_task_with_most_rows(tasks) -> None:
    assert fit(tasks, **SMALL).fit_info["source"] == "home"
    even = TaskSet(tuple(task.take(np.arange(15)) for task in tasks))
    assert fit(even, **SMALL).fit_info["source"] == "away-1"


def test_reconstruct_is_transform_and_its_inverse(tasks) -> None:
    model = fit(tasks, **SMALL)
    rows = tasks["away-2"].X
    Z = model.transform(rows, task="away-2")
    assert Z.shape == (15, 2)
    np.testing.assert_array_equal(
        model.reconstruct(rows, task="away-2"), model.inverse_transform(Z, task="away-2")
    )


def test_metrics_are_those_of_the_training_rows(tasks) -> None:
    model = fit(tasks, **SMALL)
    for task in tasks:
        wrong = np.mean((model.reconstruct(task.X, task=task.name) - task.X) ** 2)
        assert model.metrics["rmse"][task.name] == pytest.approx(np.sqrt(wrong))
        share = 1 - wrong / np.mean(task.X.var(axis=0))
        assert model.metrics["r2"][task.name] == pytest.approx(share)
        assert share > 0.8


def test_missing_values_are_filled_in(tasks) -> None:
    rng = np.random.default_rng(8)
    many = TaskSet((Task.from_rows("home", curved(rng, 150)), *tasks.tasks[1:]))
    model = fit(many, L=2, r=80, source="home")
    rows = curved(rng, 100, noise=0.0)
    holes = rows.copy()
    holes[:, [2, 5]] = np.nan
    linear = fit(many, PPCA(), k=2)
    errors = [
        np.mean((m.reconstruct(holes, task="home") - rows)[:, [2, 5]] ** 2) for m in (model, linear)
    ]
    assert errors[0] < 0.1 * np.mean(rows.var(axis=0)[[2, 5]])
    assert errors[0] < 0.5 * errors[1]
    assert np.isfinite(model.variance(holes, task="home")).all()
    assert len(model.predict(holes, task="away-1")) == 100


def test_a_row_without_any_value_is_reported(tasks) -> None:
    rows = tasks["home"].X.copy()
    rows[3] = np.nan
    with pytest.raises(InvalidData, match="row 3 has only missing values") as caught:
        fit(tasks, **SMALL).transform(rows, task="home")
    assert (caught.value.task, caught.value.row) == ("home", 3)


def test_variance_is_larger_far_from_the_rows(tasks) -> None:
    model = fit(tasks, **SMALL)
    near, far = tasks["home"].X, tasks["home"].X + 5.0 * np.array([1, -1] * 4)
    assert np.median(model.variance(near, task="home")) < np.median(
        model.variance(far, task="home")
    )
    residual = np.mean((model.reconstruct(near, task="home") - near) ** 2)
    assert np.mean(model.variance(near, task="home")) == pytest.approx(residual, rel=3.0)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_variance_is_that_of_the_process_in_the_units_of_the_data(tasks, kernel) -> None:
    moved = TaskSet(tuple(Task(t.name, 300.0 * t.X + 7.0, y=t.y) for t in tasks))
    model = fit(moved, **SMALL, source="home", kernel=kernel)
    scale = 300.0 * np.sqrt(tasks["home"].X.var(axis=0).mean())
    rows = moved["away-1"].X
    process = model.part_of("away-1").process
    Z, X = model.transform(rows, task="away-1"), process.active
    a, g = np.exp(process.theta[:2])
    k = {
        "rbf": lambda P, Q: a * np.exp(-0.5 * g * cdist(P, Q, "sqeuclidean")),
        "linear": lambda P, Q: a * P @ Q.T,
    }[kernel]
    noise = np.exp(process.theta[2]) + 0.01
    K = k(X, X) + noise * np.eye(len(X))
    expected = [
        k(z[None], z[None])[0, 0]
        + noise
        - k(z[None], X)[0] @ np.linalg.solve(K, k(X, z[None]))[:, 0]
        for z in Z
    ]
    np.testing.assert_allclose(
        model.variance(rows, task="away-1"), scale**2 * np.array(expected), rtol=1e-6
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_target_is_predicted_from_the_rows_of_its_objective(tasks, objective) -> None:
    model = fit(tasks, **SMALL, source="home", objective=objective, max_iter=100)
    process, scale = model.part_of("away-1").process, model.part_of("away-1").scale
    home, away = (
        (tasks[name].X - tasks[name].X.mean(axis=0)) / scale for name in ("home", "away-1")
    )
    # the active rows, from A = K⁻¹Y
    seen = np.linalg.solve(process.P, process.A)
    near = [np.abs(cdist(seen, rows)).min(axis=1) < 1e-6 for rows in (home, away)]
    counts = {"joint": (12, 12), "marginal": (0, 12), "printed": (12, 0), "conditional": (12, 0)}
    assert tuple(int(one.sum()) for one in near) == counts[objective]
    assert len(seen) == sum(counts[objective])
    np.testing.assert_allclose(process.A @ process.A.T, process.C, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("pairing", ["assign", "order"])
def test_fit_info_has_the_final_objective_and_divergence(tasks, pairing) -> None:
    model = fit(tasks, **SMALL, source="home", lam=0.3, pairing=pairing, max_iter=50)
    part, fit_info = model.part_of("away-1"), model.fit_info["by_task"]["away-1"]
    a, g, w = np.exp(fit_info["theta"])
    X, Y = part.process.active, np.linalg.solve(part.process.P, part.process.A)
    assert fit_info["n_active"] == len(X) == 24
    K = a * np.exp(-0.5 * g * cdist(X, X, "sqeuclidean")) + (w + 0.01) * np.eye(24)
    likelihood = -sum(multivariate_normal(np.zeros(24), K).logpdf(y) for y in Y.T)
    rows, columns = linear_sum_assignment(cdist(Y[:12], Y[12:], "sqeuclidean"))
    if pairing == "order":
        rows, columns = np.arange(12), np.arange(12)
    P, Q = K[np.ix_(rows, rows)], K[np.ix_(12 + columns, 12 + columns)]
    kl = np.linalg.slogdet(Q)[1] - np.linalg.slogdet(P)[1] + np.trace(np.linalg.solve(Q, P)) - 12
    assert fit_info["divergence"] == pytest.approx(kl / 2, rel=1e-6)
    assert fit_info["objective"] == pytest.approx(likelihood + 0.3 * 8 * kl / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "values"),
    [(TLVM(), {}), (GPLVM(), {"rows": "own"}), (GPLVM(), {"rows": "source"})],
)
def test_an_added_task_has_its_own_labels(tasks, algorithm, values) -> None:
    model = fit(TaskSet((tasks["home"],)), algorithm, **SMALL, **values)
    adapted = algorithm.adapt(model, tasks["away-1"])
    answer = adapted.predict(tasks["away-1"].X, task="away-1")
    assert np.mean(answer == tasks["away-1"].y) >= 0.9


def test_an_added_task_can_use_the_mean_of_the_source(tasks) -> None:
    values = {"rows": "source", "mean": "source"}
    model = fit(TaskSet((tasks["home"],)), GPLVM(), **SMALL, **values)
    adapted = GPLVM().adapt(model, tasks["away-1"])
    np.testing.assert_array_equal(adapted.part_of("away-1").mean, tasks["home"].X.mean(axis=0))


def test_separate_latent_spaces_share_no_labels(tasks) -> None:
    bare = TaskSet((Task("home", tasks["home"].X), tasks["away-1"]))
    values = {**SMALL, "source": "away-1"}
    own, shared = (fit(bare, GPLVM(), **values, rows=rows) for rows in ("own", "source"))
    with pytest.raises(InvalidData, match="predict needs class labels"):
        own.predict(tasks["home"].X, task="home")
    assert len(shared.predict(tasks["home"].X, task="home")) == 40


def test_labelled_rows_of_the_source_are_centred_on_its_own_mean() -> None:
    rng = np.random.default_rng(13)
    y = np.arange(40) % 2
    rows = curved(rng, 40) + 3.0 * y[:, np.newaxis] * (np.arange(8) < 4)
    tasks = TaskSet((Task.from_rows("home", rows, y=y), Task.from_rows("away", rows[:30] + 50.0)))
    for algorithm in (TLVM(), GPLVM()):
        values = {"rows": "source"} if algorithm.name == "gp-lvm" else {}
        model = fit(tasks, algorithm, **SMALL, source="home", **values)
        assert np.mean(model.predict(rows[:30] + 50.0, task="away") == y[:30]) >= 0.95
        part = model.part_of("away")
        Y = (rows - rows.mean(axis=0)) / part.scale
        expected = project(part.process, Y, is_robust=True)
        np.testing.assert_array_equal(part.references.X, expected)


def test_labels_are_the_tasks_own_or_else_the_sources(tasks) -> None:
    rows = tasks["home"].X
    y = np.where(rows[:, 0] > rows[:, 0].mean(), 7, -2)
    labelled = TaskSet(
        (Task.from_rows("home", rows, y=y), tasks["away-1"], Task("bare", tasks["away-2"].X))
    )
    model = fit(labelled, **SMALL)
    assert set(model.predict(tasks["away-1"].X, task="away-1")) <= {"a", "b", "c"}
    np.testing.assert_array_equal(
        model.predict(tasks["away-1"].X, task="away-1"), ["a", "b", "c"] * 5
    )
    answer = model.predict(tasks["away-2"].X, task="bare")
    assert answer.dtype.kind == "i"
    truth = np.where(tasks["away-2"].X[:, 0] > tasks["away-2"].X[:, 0].mean(), 7, -2)
    assert np.mean(answer == truth) > 0.7


@pytest.mark.parametrize("n", [1, 3, 4, 5, 60])
@pytest.mark.quick(2)
def test_the_label_is_that_of_the_nearest_latent_in_every_block(tasks, n, monkeypatch) -> None:
    monkeypatch.setattr(model_module, "BLOCK", 4)
    model = fit(tasks, L=3, r=12)
    rows = curved(np.random.default_rng(14), 60, shift=0.4)[:n]
    Z = model.transform(rows, task="away-1")
    references = model.part_of("away-1").references
    nearest = [np.argmin(np.sum((references.X - z) ** 2, axis=1)) for z in Z]
    expected = np.array(["a", "b", "c"] * 5)[nearest]
    np.testing.assert_array_equal(model.predict(rows, task="away-1"), expected)


def test_a_model_without_labels_cannot_predict(tasks) -> None:
    bare = TaskSet(tuple(Task(task.name, task.X) for task in tasks))
    model = fit(bare, **SMALL)
    assert "predict" not in model.available_methods()
    with pytest.raises(InvalidData, match="predict needs class labels"):
        model.predict(bare["home"].X, task="home")
    assert "predict" in fit(tasks, **SMALL).available_methods()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_new_target_gets_what_a_fit_with_it_gives(tasks, objective) -> None:
    whole = fit(tasks, **SMALL, objective=objective)
    part = fit(TaskSet((tasks["home"], tasks["away-1"])), **SMALL, objective=objective)
    adapted = TLVM().adapt(part, tasks["away-2"])
    rows = curved(np.random.default_rng(9), 20)
    for method in ("reconstruct", "variance"):
        here, there = (getattr(m, method)(rows, task="away-2") for m in (whole, adapted))
        np.testing.assert_allclose(here, there, rtol=1e-9)
    assert adapted.fit_info["by_task"]["away-2"] == whole.fit_info["by_task"]["away-2"]


def test_nll_projection_is_at_least_as_likely_as_the_robust_one(tasks) -> None:
    rows = curved(np.random.default_rng(10), 30, shift=1.0)
    robust, nll = (fit(tasks, **SMALL, projection=kind) for kind in ("robust", "nll"))
    part = nll.part_of("away-1")
    values = [
        part.process.values(
            m.transform(rows, task="away-1"), part.standardised(rows), is_robust=False
        )
        for m in (robust, nll)
    ]
    assert (values[1] <= values[0] + 1e-9).all()


@pytest.mark.parametrize("algorithm", [TLVM(), GPLVM()])
def test_predictions_do_not_depend_on_units(tasks, algorithm) -> None:
    model = fit(tasks, algorithm, **SMALL, max_iter=40)
    for scale, offset in ((1e6, 0.0), (1e-6, 0.0), (1.0, 1e6)):
        moved = TaskSet(tuple(Task(t.name, t.X * scale + offset, y=t.y) for t in tasks))
        other = fit(moved, algorithm, **SMALL, max_iter=40)
        for task in tasks:
            there = other.reconstruct(task.X * scale + offset, task=task.name)
            error = np.abs((there - offset) / scale - model.reconstruct(task.X, task=task.name))
            # an offset of 1e6 leaves nine digits, and forty steps lose some of them
            assert error.max() < 1e-3


def test_predictions_do_not_depend_on_the_order_of_rows(tasks) -> None:
    order = np.random.default_rng(11).permutation(40)
    mixed = TaskSet((tasks["home"].take(order), *tasks.tasks[1:]))
    here, there = (fit(t, **SMALL, max_iter=20) for t in (tasks, mixed))
    rows = tasks["away-1"].X
    np.testing.assert_allclose(
        here.reconstruct(rows, task="away-1"), there.reconstruct(rows, task="away-1"), atol=1e-5
    )


# --- edges ---------------------------------------------------------------------------------------


def one_column_constant(home, away):
    home, away = home.copy(), away.copy()
    home[:, 2], away[:, 1] = 4.0, -1.0
    return home, away


EDGES = {
    "few source rows": lambda home, away: (home[:4], away),
    "few target rows": lambda home, away: (home, away[:3]),
    "one target row": lambda home, away: (home, away[:1]),
    "two rows each": lambda home, away: (home[:2], away[:2]),
    "one feature": lambda home, away: (home[:, :1], away[:, :1]),
    "constant features": one_column_constant,
    "constant target": lambda home, away: (home, np.repeat(away[:1], 9, axis=0)),
    "duplicates": lambda home, away: (
        np.repeat(home[:5], 6, axis=0),
        np.repeat(away[:2], 9, axis=0),
    ),
    "far off": lambda home, away: (home + 1e6, away - 1e6),
    "large": lambda home, away: (home * 1e6, away * 1e6),
    "small": lambda home, away: (home * 1e-6, away * 1e-6),
    "unlike scales": lambda home, away: (home, away * 1e4),
}


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", EDGES)
@pytest.mark.quick(12)
@pytest.mark.quick(3)
def test_edge_cases_give_finite_predictions(name, kernel) -> None:
    rng = np.random.default_rng(12)
    home, away = EDGES[name](rng.standard_normal((30, 5)), rng.standard_normal((20, 5)))
    tasks = TaskSet((Task.from_rows("home", home), Task.from_rows("away", away)))
    for L, objective in ((2, "joint"), (8, "joint"), (2, "conditional"), (2, "marginal")):
        values = {"L": L, "r": 15, "kernel": kernel, "objective": objective, "max_iter": 60}
        model = fit(tasks, **values, source="home")
        for task in tasks:
            for method in ("transform", "reconstruct", "variance"):
                assert np.isfinite(getattr(model, method)(task.X, task=task.name)).all()
        if home.shape[1] < L:
            assert any(f"L was lowered from {L}" in warning for warning in model.warnings)


def test_tasks_that_cannot_be_learned_are_rejected(tasks) -> None:
    home, away = tasks["home"], tasks["away-1"]
    with pytest.raises(InvalidData, match="source task 'home' has 1 row; tlvm needs at least 2"):
        fit(TaskSet((home.take(np.array([0])), away)), source="home")
    with pytest.raises(InvalidParams, match=r"unknown task 'mars'.*'home'") as caught:
        fit(tasks, source="mars")
    assert caught.value.field == "source"
    flat = Task.from_rows("home", np.ones((6, 8)))
    with pytest.raises(InvalidData, match="all rows of task 'home' are equal"):
        fit(TaskSet((flat, away)), source="home")
    huge = Task.from_rows("home", 1e120 * home.X)
    with pytest.raises(InvalidData, match="differ from their mean by up to"):
        fit(TaskSet((huge, away)), source="home")
    model = fit(tasks, **SMALL)
    with pytest.raises(InvalidData, match="'new' has 3 features, the model 8"):
        TLVM().adapt(model, Task.from_rows("new", np.ones((4, 3))))


def test_a_descent_stopped_early_causes_a_warning(tasks) -> None:
    warnings = fit(tasks, **SMALL, max_iter=3).warnings
    assert any("3 optimisations (the first: source)" in warning for warning in warnings)
    assert fit(tasks, **SMALL).warnings == ()


@pytest.mark.parametrize("algorithm", [TLVM(), GPLVM()])
def test_tasks_added_under_one_trace_have_separate_warnings(tasks, algorithm) -> None:
    model = fit(TaskSet((tasks["home"],)), algorithm, **SMALL, max_iter=3)
    trace = Trace()
    for name in ("away-1", "away-2"):
        before = model.warnings
        model = algorithm.adapt(model, tasks[name], trace=trace)
        (added,) = model.warnings[len(before) :]
        assert added.startswith("1 optimisation ")
        assert f"'{name}'" in added


@pytest.mark.slow
def test_a_target_of_another_scale_causes_a_warning(tasks) -> None:
    home = tasks["home"]
    alone = fit(TaskSet((home,)), source="home", **SMALL)
    for name, factor in (("dim", 1e-6), ("loud", 1e6)):
        far = Task.from_rows(name, factor * home.X)
        expected = f"the rows of '{name}' differ from their mean by up to"
        model = fit(TaskSet((home, far)), source="home", **SMALL, max_iter=20)
        assert any(expected in warning for warning in model.warnings)
        assert any(expected in warning for warning in TLVM().adapt(alone, far).warnings)
    near = Task.from_rows("near", 100 * home.X)
    assert not any("differ from" in warning for warning in TLVM().adapt(alone, near).warnings)


def test_arrays_of_the_wrong_shape_are_rejected(tasks) -> None:
    model = fit(tasks, **SMALL)
    arrays = model.to_arrays()
    for name, array in (("P.1", np.zeros((2, 2))), ("labels.1", np.array([0, 5]))):
        with pytest.raises(ValueError, match=name.replace("labels", "(labels|references)")):
            LatentModel.from_arrays({**arrays, name: array}, model.header())


def test_baselines_take_the_shared_parameters() -> None:
    params = TLVMParams(L=3, r=7, source="home", projection="nll")
    parsed = [ALGORITHMS[one.algorithm].parse(one.params_from(params)) for one in TLVM.baselines]
    latent = [one for one in parsed if isinstance(one, GPLVMParams)]
    assert [one.rows for one in latent] == ["own", "pooled", "source"]
    for one in latent:
        assert (one.L, one.r, one.source, one.projection) == (3, 7, "home", "nll")
    names = [one.algorithm for one in TLVM.baselines if one.algorithm != "gp-lvm"]
    assert names == ["pca", "transfer-pca", "transfer-pca", "ppca"]
    linear = [one for one in parsed if not isinstance(one, GPLVMParams)]
    assert [one.k for one in linear] == [3, 3, 3, 3]
    assert [one.source for one in linear[1:]] == ["home"] * 3
    assert [one.weight for one in linear[1:]] == [10.0, 100.0, 10.0]
    assert linear[3].rows == "weighted"
    assert {baseline.role for baseline in TLVM.baselines} == {"single_task", "pooled", "multi_task"}


# --- without transfer ----------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["own", "source", "pooled"])
def test_a_latent_variable_model_takes_a_new_task(tasks, rows) -> None:
    values = {**SMALL, "rows": rows, "source": "home"}
    part = fit(TaskSet((tasks["home"], tasks["away-1"])), GPLVM(), **values)
    adapted = GPLVM().adapt(part, tasks["away-2"])
    if rows != "pooled":
        whole = fit(tasks, GPLVM(), **values)
        for method in ("reconstruct", "predict"):
            here, there = (
                getattr(m, method)(tasks["away-2"].X, task="away-2") for m in (whole, adapted)
            )
            np.testing.assert_array_equal(here, there)
    process = adapted.part_of("away-2").process
    assert (process is part.part_of("home").process) == (rows != "own")


def test_one_process_of_pooled_rows_is_used_for_all_tasks(tasks) -> None:
    model = fit(tasks, GPLVM(), **SMALL, rows="pooled")
    assert len({id(part.process) for part in model.parts}) == 1
    centred = np.concatenate([task.X - task.X.mean(axis=0) for task in tasks])
    assert model.parts[0].scale == pytest.approx(np.sqrt(np.mean(centred**2)))


def test_the_mean_of_the_source_can_replace_that_of_a_task(tasks) -> None:
    model = fit(tasks, GPLVM(), **SMALL, rows="source", mean="source")
    np.testing.assert_array_equal(model.part_of("away-1").mean, tasks["home"].X.mean(axis=0))


def test_single_task_models_need_rows_of_the_task(tasks) -> None:
    few = TaskSet((tasks["home"], tasks["away-1"].take(np.array([0]))))
    with pytest.raises(InvalidData, match="'away-1' has 1 row; gp-lvm with rows 'own'"):
        fit(few, GPLVM(), **SMALL)
    assert fit(few, GPLVM(), **SMALL, rows="source").tasks == few.names


# --- real data -----------------------------------------------------------------------------------

DATA = Path(os.environ.get("SIBLING_DATA", Path(__file__).parents[2] / "../shared/data"))


def load(name):
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there; set SIBLING_DATA to the folder that holds it")
    with np.load(path, allow_pickle=False) as file:
        return file["X"].astype(np.float64), file["y"].astype(np.int64)


def distances(model, rows, name):
    """Return the paper's reconstruction error, the mean of ‖y - ŷ‖."""
    return np.linalg.norm(model.reconstruct(rows, task=name) - rows, axis=1).mean()


@pytest.mark.slow
@pytest.mark.parametrize("digit", [3, 6])
def test_transfer_is_better_than_the_source_for_every_other_digit(digit) -> None:
    X, y = load("usps")
    rng = np.random.default_rng(digit)
    rows = {k: X[rng.permutation(np.flatnonzero(y == k))[:200]] / 2000 for k in range(10)}
    train = {k: rows[k] if k == digit else rows[k][:100] for k in rows}
    tasks = TaskSet(tuple(Task.from_rows(str(k), train[k]) for k in rows))
    lvm = fit(tasks, GPLVM(), source=str(digit), rows="source")
    joint = fit(tasks, source=str(digit))
    for k in set(rows) - {digit}:
        errors = [distances(model, rows[k][100:], str(k)) for model in (lvm, joint)]
        assert errors[1] < 0.9 * errors[0]


def test_transfer_is_better_than_the_source_on_faces() -> None:
    X, _ = load("yale_32x32")
    Xt, _ = load("orl_32x32")
    order = np.random.default_rng(0).permutation(len(Xt))
    train, test = Xt[order[:200]] / 255, Xt[order[200:]] / 255
    tasks = TaskSet((Task.from_rows("yale", X / 255), Task.from_rows("orl", train)))
    joint = distances(fit(tasks, source="yale"), test, "orl")
    for mean, share in (("source", 0.75), ("own", 0.9)):
        lvm = fit(tasks, GPLVM(), source="yale", rows="source", mean=mean)
        assert joint < share * distances(lvm, test, "orl")


def test_adding_targets_to_a_source_model_equals_fitting_them_together(tasks) -> None:
    together = fit(tasks, **SMALL, source="home")
    model = fit(TaskSet(tasks.tasks[:1]), **SMALL)
    for task in tasks.tasks[1:]:
        model = TLVM().adapt(model, task)
    assert model.tasks == together.tasks
    for task in tasks:
        np.testing.assert_array_equal(
            model.reconstruct(task.X, task=task.name), together.reconstruct(task.X, task=task.name)
        )
