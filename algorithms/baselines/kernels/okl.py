"""OKL and ConvexOKL: published alternations for squared loss, p = 2 and shared rows.

Both solve the problem of :mod:`algorithms.fmtl.algorithm` for p = 2 and squared loss. *OKL*
alternates between the coefficients A, from the matrix equation KAL + μA = Y, and the exact minimum
over L:

    (EᵀE + μI)(L_new - L) = μ(½EᵀA - L),   E = KA                         (Dinuzzo et al., Alg. 1)

With L = λ^{1/3}Θ and μ = λ^{1/3}/C its objective ‖Y - KAL‖²/(2μ) + ½⟨AᵀKA, L⟩ + ½‖L‖² is
equivalent. *ConvexOKL* updates Θ ← ((ΘGΘ + δI)/(2λ))^{1/3} with a vanishing barrier δ (Ciliberto et
al.). The matrix equation is solved in the eigenvectors of K, computed once, and of Θ. The papers
have no stopping rule; here both stop on the duality gap of fmtl.

References: Dinuzzo, Ong, Gehler, Pillonetto, *Learning output kernels with block coordinate
descent*, ICML 2011; Ciliberto, Mroueh, Poggio, Rosasco, *Convex learning of multiple tasks and
their structure*, ICML 2015, https://arxiv.org/abs/1504.03101
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from algorithms.families.kernel_machines.algorithm import MachineAlgorithm
from algorithms.families.kernel_machines.building import Solution
from algorithms.families.kernel_machines.certificate import Certificate
from algorithms.families.kernel_machines.losses import Loss
from algorithms.families.kernel_machines.output_kernels import relative_lam
from algorithms.families.kernel_machines.params import MachineParams
from algorithms.families.kernel_machines.preparation import Prepared, mean_rows
from algorithms.families.kernel_machines.work import estimate_spectral
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.trace import LoopState, Trace
from algorithms.interface.work import WorkEstimate, n_outputs
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import relative_gap

#: Barrier of ConvexOKL relative to the mean eigenvalue of B, and its factor of decay per step.
BARRIER, BARRIER_DECAY = 1e-3, 0.5
#: Steps of both methods; the steps of OKL grow with the rows and the outputs. Counted in
#: benchmarks.
N_STEPS: Final = 5.0
STEPS_PER_PAIR: Final = 0.1


class OKLParams(MachineParams):
    """Parameters of OKL and ConvexOKL.

    λ follows from C as in fmtl, and is 1 on the absolute scale. This is no restriction, because the
    solution depends on C³/λ only.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class OKLState(LoopState):
    """Θ (T, T), its dual variables α (N, T), the best dual value, and the number of steps."""

    Theta: Array
    alpha: Array
    dual: float
    n_done: int


class _Alternation(MachineAlgorithm[OKLParams]):
    """Base class: alternation between machines and Θ."""

    needs = Needs(same_features=True, target="any", shared_rows=True, sparse=True)
    Params = OKLParams
    is_convex: ClassVar[bool]

    def check(self, summaries: Sequence[TaskSummary], params: OKLParams) -> None:
        """Raise InvalidData or InvalidParams if tasks, loss or memory are unsuitable."""
        super().check(summaries, params)
        if params.loss not in ("auto", "squared"):
            raise InvalidParams(
                f"{self.name} supports only the loss 'squared', got '{params.loss}'", field="loss"
            )
        if params.class_weight != "none":
            raise InvalidParams(
                f"{self.name} does not support class weights; set class_weight to 'none'",
                field="class_weight",
            )

    def solver_work(self, summaries: Sequence[TaskSummary], params: OKLParams) -> WorkEstimate:
        """Return the work of the eigendecompositions of K, and of Θ in each step."""
        N, m = summaries[0].n_samples, n_outputs(summaries)
        n_steps = N_STEPS + (0.0 if self.is_convex else STEPS_PER_PAIR * N * min(N, m))
        return estimate_spectral(summaries, params, n_iterations=min(n_steps, params.max_iter))

    def solve(
        self, prepared: Prepared, params: OKLParams, *, seed: int, trace: Trace
    ) -> tuple[str, Solution]:
        """Return the machines and Θ."""
        del seed
        e, C = prepared.examples, params.C
        K, Y, lam = _shared(prepared, self.name), _targets(prepared), _lam(prepared, params)
        S, Q = np.linalg.eigh(K)
        S = np.maximum(S, 0.0)
        QY = Q.T @ Y

        def state(Theta: Array, best: float, n_done: int) -> OKLState:
            # K α Θ + α/C = Y in the eigenvectors of K and Θ
            values, V = np.linalg.eigh(Theta)
            alpha = (QY @ V) / (1.0 / C + np.outer(S, np.maximum(values, 0.0))) @ V.T
            G = alpha.T @ (S[:, np.newaxis] * alpha)
            dual = float(np.vdot(alpha, QY)) - float(np.vdot(alpha, alpha)) / (2 * C)
            dual -= float(np.vdot(G, G)) / (8 * lam)
            best = max(best, dual)
            gap = lam / 2 * float(np.sum((Theta - G / (2 * lam)) ** 2))
            primal = dual + gap
            residual = relative_gap(primal, primal - best)
            return OKLState(
                objective=best, residual=residual, Theta=Theta, alpha=alpha, dual=best,
                n_done=n_done,
            )  # fmt: skip

        def step(before: OKLState) -> OKLState:
            update = _convex_step if self.is_convex else _okl_step
            Theta = update(before, S, C=C, lam=lam)
            return state((Theta + Theta.T) / 2, before.dual, before.n_done + 1)

        first = state(np.eye(e.n_outputs), -np.inf, 0)
        end = trace.run(
            "alternation", step, first, max_iter=params.max_iter, tolerance=params.tolerance
        )
        solution = _solution(prepared, K, Q @ end.alpha, end.Theta, C=C, lam=lam)
        return self.name, replace(solution, reason=trace.stop_reason)


class OKL(_Alternation):
    """Output-kernel learning by block coordinate descent."""

    name = "okl"
    title = "Output-kernel learning by block descent (OKL)"
    summary = (
        "The problem of fmtl with squared loss and k = 1, for tasks on the same rows, by the "
        "alternation published in 2011. For comparison."
    )
    reference = "Dinuzzo et al. (2011), https://icml.cc/2011/papers/54_icmlpaper.pdf"
    is_convex = False


class ConvexOKL(_Alternation):
    """Output-kernel learning by convex alternation."""

    name = "convex-okl"
    title = "Output-kernel learning by convex alternation (ConvexOKL)"
    summary = (
        "The problem of fmtl with squared loss and k = 1, for tasks on the same rows, by the "
        "convex alternation published in 2015. For comparison."
    )
    reference = "Ciliberto et al. (2015), https://arxiv.org/abs/1504.03101"
    is_convex = True


def _okl_step(before: OKLState, S: Array, *, C: float, lam: float) -> Array:
    """Return Θ from the exact minimum over L, which is positive semidefinite."""
    root = lam ** (1.0 / 3.0)
    mu, L, A = root / C, root * before.Theta, before.alpha / root
    E = S[:, np.newaxis] * A
    right = 0.5 * E.T @ A - L
    change = np.linalg.solve(E.T @ E + mu * np.eye(len(L)), mu * right)
    return np.asarray((L + change) / root)


def _convex_step(before: OKLState, S: Array, *, C: float, lam: float) -> Array:
    """Return Θ = ((B + δI)/(2λ))^{1/3}, B = ΘGΘ."""
    del C
    G = before.alpha.T @ (S[:, np.newaxis] * before.alpha)
    values, V = np.linalg.eigh(before.Theta @ G @ before.Theta)
    delta = BARRIER * BARRIER_DECAY**before.n_done * max(float(values.mean()), 0.0)
    return np.asarray((V * np.cbrt((np.maximum(values, 0.0) + delta) / (2 * lam))) @ V.T)


def _shared(prepared: Prepared, algorithm: str) -> Array:
    e = prepared.examples
    if not e.is_shared:
        raise InvalidData(
            f"{algorithm} needs tasks on the same rows, or one task of several classes, but task "
            f"'{e.targets[0].task}' and another have different rows; use fmtl",
            task=e.targets[0].task,
        )
    return e.X @ e.X.T if prepared.K is None else prepared.K


def _targets(prepared: Prepared) -> Array:
    e = prepared.examples
    return e.y.reshape(e.n_outputs, -1).T


def _lam(prepared: Prepared, params: OKLParams) -> float:
    if params.scale == "absolute":
        return 1.0
    return relative_lam("power", k=1, C=params.C, n_rows=mean_rows(prepared.examples))


def _solution(
    prepared: Prepared, K: Array, alpha: Array, Theta: Array, *, C: float, lam: float
) -> Solution:
    e = prepared.examples
    kappa = alpha / C
    KA = K @ kappa
    g = kappa.T @ KA
    F = KA @ (C * Theta)
    y, w = e.y, e.w
    flat = kappa.T.ravel()
    loss = Loss("squared")
    gains = loss.gains(y, flat, w)
    terms = loss.values(y, F.T.ravel(), w) - gains + flat * F.T.ravel()
    extra = lam / (2 * C) * float(np.sum((Theta - C**2 * g / (2 * lam)) ** 2))
    dual = float(gains.sum()) - C**3 / (8 * lam) * float(np.vdot(g, g))
    certificate = Certificate(dual + float(terms.sum()) + extra, dual, terms, extra)
    return Solution(flat, C * Theta, (g + g.T) / 2, F.T.ravel(), certificate, None)
