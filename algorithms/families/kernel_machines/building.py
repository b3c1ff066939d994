"""Solutions of kernel machines, and the models that are built from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.families.kernel_machines.certificate import Certificate, certify
from algorithms.families.kernel_machines.examples import Examples, Target
from algorithms.families.kernel_machines.model import KernelMachine
from algorithms.families.kernel_machines.preparation import Prepared
from algorithms.families.kernel_machines.problem import Problem
from algorithms.interface.relations import relations_of
from algorithms.interface.tasks import TaskSet, tasks_have
from algorithms.interface.trace import StopReason
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import weighted_mean
from algorithms.numerics.gaps import relative_gap


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The result of a solver.

    Parameters
    ----------
    kappa : (n,)
        α/C, output by output.
    theta : (T, T)
        CΘ.
    g : (T, T)
        κᵀKκ, task by task.
    F : (n,)
        Predictions for the examples.
    certificate
        Primal value, dual value and gap.
    reason
        Why the solver stopped.
    W : (q, T) or None
        Weights of features, from a primal solver.
    """

    kappa: Array
    theta: Array
    g: Array
    F: Array
    certificate: Certificate
    reason: StopReason | None
    W: Array | None = None


def solution_of(problem: Problem, kappa: Array, *, reason: StopReason | None) -> Solution:
    """Return the solution for a dual point κ (n,), with Θ = φ'(ρ)."""
    e = problem.examples
    products = problem.products(kappa)
    g = problem.gram(kappa, products)
    theta = problem.kernel.theta(g)
    F = problem.predictions(products, theta)
    certificate = certify(
        y=e.y, w=e.w, kappa=kappa, F=F, g=g, loss=problem.loss, kernel=problem.kernel
    )
    return Solution(kappa, theta, g, F, certificate, reason)


def build_machine(
    prepared: Prepared,
    solution: Solution,
    tasks: TaskSet,
    *,
    algorithm: str,
    C: float,
    fit_info: Mapping[str, Any],
    tolerance: float,
) -> KernelMachine:
    """Return the model of a solution, without rows whose coefficients are 0.

    Parameters
    ----------
    fit_info
        Additions to the results in the model's ``fit_info``.
    tolerance
        Relative duality gap above which the model has a warning.
    """
    e = prepared.examples
    names = [name for target in e.targets for name in target.output_names()]
    relations = relations_of(solution.theta, names)
    certificate = solution.certificate
    results = {
        "C": C,
        "primal": C * certificate.primal,
        "dual": C * (certificate.primal - certificate.gap),
        "relative_gap": certificate.relative_gap,
        "n_rows": len(e.X),
        "relations": {
            "sentence": relations.sentence,
            "order": [names[i] for i in relations.order],
            "sparsity": relations.sparsity,
        },
    }
    coefficients: dict[str, Any] = _coefficients(prepared, solution, C)
    model = KernelMachine(
        algorithm=algorithm,
        tasks=tasks.names,
        targets=e.targets,
        kernel=prepared.kernel,
        mean=prepared.standardiser.mean,
        deviation=prepared.standardiser.deviation,
        Theta=solution.theta / C,
        g=solution.g,
        **coefficients,
        target_prior=e.prior,
        fit_info={**results, **fit_info},
        scores=_scores(e, solution),
    )
    return model.with_warnings(*_warnings(e, solution, tolerance))


def training_error(y: Array, F: Array, target: Target, weights: Array | None) -> float:
    """Return the error rate, or the root mean squared error in the units of the data.

    Parameters
    ----------
    y, F : (n_samples, n_outputs)
    weights : (n_samples,) or None
        Weights of the rows; None: equal ones.
    """
    if target.classes is None:
        return target.scale * float(np.sqrt(weighted_mean(((y - F) ** 2)[:, 0], weights)))
    if target.n_outputs > 1:
        is_wrong = y.argmax(axis=1) != F.argmax(axis=1)
    else:
        is_wrong = ((y > 0) != (F > 0))[:, 0]
    return 0.0 if len(target.classes) == 1 else weighted_mean(is_wrong.astype(float), weights)


def error_metric(target: Target) -> str:
    """Return the name of the metric of :func:`training_error`."""
    return "train_rmse" if target.classes is None else "train_error"


def _coefficients(prepared: Prepared, solution: Solution, C: float) -> dict[str, NDArray[Any]]:
    """Return the arrays of the model: support, β, and α or its sums of features for adaptation."""
    e, Z, T = prepared.examples, prepared.features, prepared.examples.n_outputs
    empty, no_rows = np.zeros((0, len(prepared.standardiser.mean))), np.zeros(0, dtype=np.int64)
    no_alpha: dict[str, NDArray[Any]] = {"alpha": np.zeros(0), "row": no_rows, "output": no_rows}
    if Z is not None:
        U = np.stack([solution.kappa[e.parts[r]] @ Z[e.rows[r]] for r in range(T)], axis=1)
        W = U @ solution.theta if solution.W is None else solution.W
        U, W = prepared.lift(U), prepared.lift(W)
        if prepared.landmarks is None:
            return {**no_alpha, "support": empty, "beta": W, "U": C * U, "expand": empty[:, :0]}
        assert prepared.expand is not None
        beta, expand = prepared.expand @ W, prepared.expand
        return {
            **no_alpha, "support": prepared.landmarks, "beta": beta, "U": C * U, "expand": expand,
        }  # fmt: skip
    row, output = e.row_and_output
    beta = _mix_coefficients(e, solution.kappa, solution.theta)
    parts: dict[str, NDArray[Any]] = {"U": np.zeros((0, T)), "expand": np.zeros((0, 0))}
    if prepared.kernel.name == "precomputed":
        return {**parts, **no_alpha, "support": empty, "beta": beta / prepared.kernel.divisor}
    is_used = np.zeros(len(e.X), dtype=bool)
    is_used[row[solution.kappa != 0.0]] = True
    place = np.cumsum(is_used) - 1
    kept_examples = solution.kappa != 0.0
    return {
        **parts,
        "support": e.X[is_used],
        "beta": beta[is_used],
        "alpha": C * solution.kappa[kept_examples],
        "row": place[row[kept_examples]].astype(np.int64),
        "output": output[kept_examples].astype(np.int64),
    }


def _mix_coefficients(e: Examples, kappa: Array, theta: Array) -> Array:
    """Return β (N, T) with F = Σ_j k_j β_j."""
    if e.is_shared:
        return kappa.reshape(e.n_outputs, -1).T @ theta
    beta = np.zeros((len(e.X), e.n_outputs))
    for r in range(e.n_outputs):
        beta[e.rows[r]] += np.outer(kappa[e.parts[r]], theta[r])
    return beta


def _scores(e: Examples, solution: Solution) -> dict[str, dict[str, float]]:
    primal = solution.certificate.primal
    errors, gaps = {}, {}
    # the penalty gap belongs to no example, so it is divided equally among the outputs
    penalty_gap = solution.certificate.penalty_gap / e.n_outputs
    for target, weights in zip(e.targets, e.weights, strict=True):
        parts = [e.parts[r] for r in range(target.first, target.first + target.n_outputs)]
        y = np.stack([e.y[part] for part in parts], axis=1)
        F = np.stack([solution.F[part] for part in parts], axis=1)
        errors[target.task] = training_error(y, F, target, weights)
        gap = sum(float(solution.certificate.terms[part].sum()) + penalty_gap for part in parts)
        gaps[target.task] = relative_gap(primal, gap)
    return {error_metric(e.targets[0]): errors, "duality_gap": gaps}


def _warnings(e: Examples, solution: Solution, tolerance: float) -> tuple[str, ...]:
    warnings = []
    gap = solution.certificate.relative_gap
    if gap > tolerance:
        warnings.append(
            f"stopped ({solution.reason}) with a relative duality gap of {gap:.1e}, above the "
            f"tolerance {tolerance:g}; increase max_iter or decrease C"
        )
    one_class = [t.task for t in e.targets if t.classes is not None and len(t.classes) == 1]
    if one_class:
        warnings.append(
            f"{tasks_have(one_class, len(e.targets))} rows of only one class, which is always "
            "predicted"
        )
    if not np.any(np.diag(solution.theta) > 0):
        warnings.append(
            "the output kernel is 0, so each task has a constant prediction; increase C"
        )
    return tuple(warnings)
