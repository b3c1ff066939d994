"""The penalties exp and cosh at every strength: an optimum that another solver finds as well."""

import numpy as np
import pytest
from scipy.optimize import Bounds, minimize
from scipy.special import xlogy
from sklearn.metrics import roc_auc_score

from algorithms.families.kernel_machines.ascent import coordinate_ascent
from algorithms.families.kernel_machines.examples import examples_of
from algorithms.families.kernel_machines.input_kernels import InputKernel
from algorithms.families.kernel_machines.losses import Loss
from algorithms.families.kernel_machines.output_kernels import learned_kernel, relative_lam
from algorithms.families.kernel_machines.problem import Problem
from algorithms.fmtl import FMTL, FMTLParams
from algorithms.interface.target_scales import scale_prior
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace

#: Gap of coordinate ascent here, and the tolerance of the other solver.
GAP, SLACK = 1e-7, 1e-6
#: Part of the errors in the tests are beyond them.
DELTA, EPSILON = 0.3, 0.1

LOSSES = {
    "numbers": ("squared", "huber", "epsilon-insensitive"),
    "classes": ("squared", "hinge", "squared-hinge", "logistic"),
}
over_losses = pytest.mark.parametrize(
    ("kind", "loss"), [(kind, loss) for kind, losses in LOSSES.items() for loss in losses]
)
over_penalties = pytest.mark.parametrize("penalty", ["exp", "cosh"])
over_strengths = pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1000.0])


def related(kind, *, T=3, n=9, d=4, seed=3):
    rng = np.random.default_rng(seed)
    common, made = rng.standard_normal(d), []
    for t in range(T):
        X = rng.standard_normal((n + t, d))
        f = X @ ((-1) ** t * common + 0.3 * rng.standard_normal(d))
        f += 0.5 * rng.standard_normal(len(X))
        y = f if kind == "numbers" else np.where(f > 0, "yes", "no")
        made.append(Task.from_rows(f"task-{t}", X, y=y))
    return TaskSet(tuple(made))


def examples_in_one_unit(tasks):
    prior = scale_prior(tasks.tasks, "all", is_centered=True)
    return examples_of(tasks, center="task", weights="none", prior=prior)


def problem_of(kind, loss, penalty, C):
    e = examples_in_one_unit(related(kind))
    lam = relative_lam(penalty, k=1, C=C, n_rows=10.0)
    kernel = learned_kernel(penalty, k=1, C=C, lam=lam)
    epsilon = EPSILON if loss == "epsilon-insensitive" else 0.0
    K = InputKernel("rbf", gamma=0.15).gram(e.X)
    return Problem(e, K, Loss(loss, epsilon, DELTA), kernel), lam


def values_of_v(penalty, rho, *, top=40.0):
    """Return Θ and V* of (10) and (11), entry by entry; from ``top`` on V* is linear.

    No optimum is out there, but the other solver tries such points.
    """
    inside = np.clip(rho, -top, top)
    if penalty == "exp":
        Theta, V = np.exp(inside), np.expm1(inside)
    else:
        Theta, V = np.sinh(inside), np.cosh(inside) - 1
    return Theta, V + Theta * (rho - inside)


class Paper:
    """(6) and (11) of the paper, from nothing but its formulas, in α."""

    def __init__(self, problem, *, loss, penalty, C, lam) -> None:
        e = problem.examples
        _, output = e.row_and_output
        self.Z, self.K, self.y, self.w = np.eye(e.n_outputs)[output], problem.K, e.y, e.w
        self.loss, self.penalty, self.C, self.lam = loss, penalty, C, lam

    def parts(self, alpha):
        B = self.K @ (alpha[:, np.newaxis] * self.Z)
        G = self.Z.T @ (alpha[:, np.newaxis] * B)
        Theta, V = values_of_v(self.penalty, G / (2 * self.lam))
        return G, Theta, V, ((self.Z @ Theta) * B).sum(axis=1)

    def bounds(self):
        top = {"huber": DELTA * self.C, "epsilon-insensitive": self.C}.get(self.loss, np.inf)
        if self.loss in ("hinge", "logistic"):
            return np.minimum(0, self.C * self.y), np.maximum(0, self.C * self.y)
        if self.loss == "squared-hinge":
            return np.where(self.y > 0, 0, -np.inf), np.where(self.y > 0, np.inf, 0)
        return np.full_like(self.y, -top), np.full_like(self.y, top)

    def minus_dual(self, alpha):
        """Return minus (11) and its gradient; ε|α| is left out."""
        C, y, kappa = self.C, self.y, alpha / self.C
        _, _, V, F = self.parts(alpha)
        if self.loss == "logistic":
            u = np.clip(y * kappa, 1e-15, 1 - 1e-15)
            conjugate, slope = xlogy(u, u) + xlogy(1 - u, 1 - u), y * np.log(u / (1 - u))
        else:
            q = float(self.loss in ("squared", "huber", "squared-hinge"))
            conjugate, slope = -y * kappa + 0.5 * q * kappa**2, -y + q * kappa
        return C * conjugate.sum() + self.lam * V.sum(), slope + F

    def solve(self, start):
        """Return the α with the largest dual value that L-BFGS-B finds, and that value."""
        low, high = self.bounds()
        epsilon = EPSILON if self.loss == "epsilon-insensitive" else 0.0
        n, size = len(self.y), max(float(np.abs(start).max()), 1e-3 * self.C)
        # |α| is linear in its two parts
        signs = np.array([1.0, -1.0]) if epsilon else np.array([1.0])
        low, high = (np.tile(low, 1), high) if not epsilon else (np.zeros(2 * n), np.tile(high, 2))
        first = np.concatenate([np.maximum(s * start, 0) for s in signs]) if epsilon else start

        def value(x):
            alpha = size * (signs @ x.reshape(len(signs), n))
            found, slope = self.minus_dual(alpha)
            slope = size * (np.outer(signs, slope) + epsilon).ravel()
            return found + epsilon * size * float(x.sum()) * bool(epsilon), slope

        x = first / size
        for _ in range(2):  # again without memory: it may stop early
            x = minimize(
                value, x, jac=True, method="L-BFGS-B", bounds=Bounds(low / size, high / size),
                options={"maxiter": 3000, "maxfun": 6000, "ftol": 1e-16, "gtol": 1e-12,
                         "maxcor": 30},
            ).x  # fmt: skip
        return size * (signs @ x.reshape(len(signs), n)), -value(x)[0]

    def primal(self, alpha):
        """Return (6) at Θ and F of α."""
        G, Theta, _, F = self.parts(alpha)
        margin, error = 1 - self.y * F, np.abs(self.y - F)
        losses = {
            "squared": 0.5 * error**2,
            "huber": np.where(error < DELTA, 0.5 * error**2, DELTA * (error - DELTA / 2)),
            "epsilon-insensitive": np.maximum(error - EPSILON, 0),
            "hinge": np.maximum(margin, 0),
            "squared-hinge": 0.5 * np.maximum(margin, 0) ** 2,
            "logistic": np.logaddexp(0, -self.y * F),
        }[self.loss]
        if self.penalty == "exp":
            V = xlogy(Theta, Theta) - Theta + 1
        else:
            V = Theta * np.arcsinh(Theta) - np.sqrt(1 + Theta**2) + 1
        return self.C * losses.sum() + 0.5 * np.vdot(Theta, G) + self.lam * V.sum()


def another_optimum(kind, loss, penalty, C):
    """Return the dual value that L-BFGS-B finds for C, by way of smaller ones."""
    alpha = None
    for strength in [c for c in 10.0 ** np.arange(-2, 4) if c < 0.99 * C] + [C]:
        problem, lam = problem_of(kind, loss, penalty, strength)
        paper = Paper(problem, loss=loss, penalty=penalty, C=strength, lam=lam)
        alpha = 0.1 * strength * problem.examples.y if alpha is None else alpha
        low, high = paper.bounds()
        alpha, value = paper.solve(np.clip(alpha, low, high))
    return value


@pytest.mark.slow
@over_penalties
@over_losses
@over_strengths
def test_the_optimum_is_that_of_another_solver(kind, loss, penalty, C) -> None:
    problem, lam = problem_of(kind, loss, penalty, C)
    end = coordinate_ascent(problem, "tasks", seed=0, max_iter=20_000, tolerance=GAP, trace=Trace())
    found = problem.certificate(end.kappa)
    assert 0 <= found.relative_gap <= GAP
    paper = Paper(problem, loss=loss, penalty=penalty, C=C, lam=lam)
    # (6) and (11) of this point, by the paper's formulas: they alone prove that it is the optimum
    alpha = C * end.kappa
    epsilon = EPSILON * np.abs(alpha).sum() if loss == "epsilon-insensitive" else 0.0
    primal, dual = paper.primal(alpha), -paper.minus_dual(alpha)[0] - epsilon
    assert C * found.primal == pytest.approx(primal, rel=1e-9)
    assert C * found.dual == pytest.approx(dual, rel=1e-9)
    slow = another_optimum(kind, loss, penalty, C)
    # whatever another point proves is below the optimum
    assert slow <= primal * (1 + 1e-12)
    assert dual >= slow - SLACK * abs(slow)
    if C <= 100 or loss not in ("hinge", "logistic"):  # beyond, the other solver stops early
        assert slow == pytest.approx(dual, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sdca", "tasks", "blocks"])
@pytest.mark.parametrize(("penalty", "k"), [("power", 1), ("power", 10), ("exp", 1), ("cosh", 1)])
@pytest.mark.parametrize("C", [1e-6, 1e6])
@pytest.mark.parametrize("lam", [1e-6, 1.0, 1e6, None])
def test_no_strength_overflows(method, penalty, k, C, lam) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    made = [Task.from_rows(name, X, y=np.where(X @ rng.standard_normal(3) > 0, 1, 0)) for name in "ab"]  # noqa: E501  # fmt: skip
    e = examples_in_one_unit(TaskSet(tuple(made)))
    lam = relative_lam(penalty, k=k, C=C, n_rows=60.0) if lam is None else lam
    kernel = learned_kernel(penalty, k=k, C=C, lam=lam)
    K = InputKernel("rbf", gamma=0.15, bias=1.0).gram(e.X)
    for loss in LOSSES["classes"]:
        trace = Trace()
        problem = Problem(e, K, Loss(loss), kernel)
        end = coordinate_ascent(problem, method, seed=0, max_iter=15, tolerance=1e-6, trace=trace)
        found = problem.certificate(end.kappa)
        assert np.isfinite(kernel.theta(end.g)).all()
        assert np.isfinite([found.primal, found.dual, found.gap]).all()
        assert found.primal >= found.dual * (1 - 1e-9)
        values = np.array([step.objective for step in trace.history])
        # each pass raises the dual
        assert (np.diff(values) >= -1e-9 * np.abs(values).max()).all()


def landmine(path, *, n_rows=80):
    file = np.load(path)
    X, y, task = file["X"].astype(float), file["y"].astype(int), file["task19"].astype(int)
    rng, train, rest = np.random.default_rng(0), [], []
    for t in range(19):
        rows = rng.permutation(np.flatnonzero(task == t))
        for tasks, part in ((train, rows[:n_rows]), (rest, rows[n_rows:])):
            tasks.append(Task.from_rows(f"{t:02}", X[part], y=y[part]))
    return TaskSet(tuple(train)), rest


def fit(tasks, **values):
    return FMTL().fit(tasks, FMTLParams(**values), trace=Trace(), rng=np.random.default_rng(0))


def auc(model, tasks):
    return np.mean([
        roc_auc_score(t.y, model.decision_function(t.X, task=t.name)) for t in tasks
    ])  # fmt: skip


@over_penalties
@pytest.mark.parametrize("C", [1.0, pytest.param(100.0, marks=pytest.mark.slow)])
def test_land_mines_are_detected_at_every_strength(data_file, penalty, C) -> None:
    train, rest = landmine(data_file("landmine.npz"))
    model = fit(train, penalty=penalty, loss="logistic", C=C)
    assert 0 <= model.fit_info["relative_gap"] <= 1e-3
    assert model.warnings == ()
    assert 0 < np.diag(model.Theta).max() < 10
    assert np.linalg.eigvalsh(model.Theta)[0] >= -1e-10 * np.abs(model.Theta).max()
    assert auc(model, rest) > 0.7


# -- new tasks --------------------------------------------------------------------------------


def two_groups(n, *, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for t in range(4):
        X = rng.standard_normal((n, 4))
        f = X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.3 * rng.standard_normal(n)
        made.append(Task.from_rows(f"task-{t}", X, y=np.where(f > 0, "yes", "no")))
    return TaskSet(tuple(made[:3])), made[3]


@over_penalties
@pytest.mark.parametrize("C", [0.1, 10.0, 100.0])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.quick(7)
def test_a_new_task_of_many_rows_reaches_what_it_reports(penalty, C, loss) -> None:
    old, new = two_groups(20)
    new = two_groups(200, seed=1)[1]
    model = fit(old, penalty=penalty, loss=loss, C=C, max_iter=2000)
    trace = Trace()
    joined = FMTL().adapt(model, new, trace=trace)
    gap = joined.metrics["duality_gap"][new.name]
    assert 0 < gap <= 1e-3
    assert joined.warnings == model.warnings
    assert np.mean(joined.predict(new.X, task=new.name) == new.y) > 0.9
    # the dual of the new task alone, by another solver: all products with the others given
    Z = (new.X - joined.mean) / joined.deviation
    rows, alpha = joined.adapted[3]
    K, T = joined.kernel.gram(Z), 3
    b = np.zeros((len(Z), T))
    for i, s, a in zip(joined.row, joined.output, joined.alpha, strict=True):
        b[:, s] += a * joined.kernel.matrix(Z, joined.support[i : i + 1])[:, 0]
    lam = relative_lam(penalty, k=1, C=C, n_rows=joined.fit_info["mean_rows"])
    y = np.where(new.y == "yes", 1.0, -1.0)

    def minus_dual(a):
        G = np.append(a @ b, a @ K @ a)
        Theta, V = values_of_v(penalty, G / (2 * lam))
        F = np.column_stack([b, K @ a]) @ Theta
        u = y * a / C
        if loss == "logistic":
            u = np.clip(u, 1e-15, 1 - 1e-15)
            conjugate, slope = xlogy(u, u) + xlogy(1 - u, 1 - u), y * np.log(u / (1 - u))
        else:
            q = float(loss == "squared")
            conjugate, slope = -u + 0.5 * q * u**2, -y + q * y * u
        return C * conjugate.sum() + lam * (2 * V[:T].sum() + V[T]), slope + F

    reached = np.zeros(len(Z))
    for x, a in zip(rows, alpha, strict=True):
        reached[int(np.argmin(((Z - x) ** 2).sum(axis=1)))] = a
    dual = -minus_dual(reached)[0]
    assert C * trace.history[-1].objective == pytest.approx(dual, rel=1e-7)
    low, high = (np.minimum(0, C * y), np.maximum(0, C * y))
    if loss == "squared":
        low, high = np.full_like(y, -np.inf), np.full_like(y, np.inf)
    slow = minimize(
        minus_dual, reached, jac=True, method="L-BFGS-B", bounds=Bounds(low, high),
        options={"maxiter": 300, "maxfun": 600, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30},
    )  # fmt: skip
    # the dual value reached is below the optimum by no more than the gap that is reported
    primal = dual / (1 - gap)
    assert -slow.fun <= primal * (1 + 1e-9)


def test_a_new_task_that_stops_early_causes_a_warning() -> None:
    old, _ = two_groups(20)
    new = two_groups(200, seed=1)[1]
    model = fit(old, penalty="exp", loss="hinge", C=100.0, max_iter=2, tolerance=1e-6)
    joined = FMTL().adapt(model, new)
    gap = joined.metrics["duality_gap"][new.name]
    assert gap > 1e-6
    expected = f"adaptation to task '{new.name}' stopped with a relative duality gap of {gap:.1e}"
    assert expected in joined.warnings[-1]
