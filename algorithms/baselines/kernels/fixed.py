"""Kernel machines with fixed relations of tasks: separate machines, or machines near their mean.

    min  C Σ L(y_i, F(x_i, t_i)) + ½‖F‖²,   ‖F‖ in the space of k(x, z) Θ_st

Θ is the *output kernel*. An output is the function of a task, or of one class of a task with three
or more classes. With Θ = I each output has a separate machine (support vector machine, ridge
regression, ...). With Θ = (1 - a)I + a 11ᵀ the function of every task is the sum of a common
function and a function of its own, and a is the common share of the prior variance (Evgeniou and
Pontil 2004); a = 1 is one machine for all rows. Only outputs with the same meaning are related:
outputs of regression tasks, of two-class tasks with the same two classes, or of the same class in
tasks with three or more classes. Other entries of Θ off the diagonal are 0.

Cost: dual coordinate ascent as for output-kernel learning, with constant Θ.

Reference: Evgeniou, Pontil, *Regularized multi-task learning*, KDD 2004,
doi:10.1145/1014052.1014067

For a given graph of tasks with the Laplacian matrix L, Θ = (L + δI)⁻¹, divided by its mean diagonal
(section 3.1.3 of Evgeniou, Micchelli, Pontil, *Learning multiple tasks with kernel methods*, JMLR
2005, https://jmlr.org/papers/v6/evgeniou05a.html). The penalty is then on the differences between
neighbours, Σ_st w_st‖f_s − f_t‖²/2 + δ Σ_t ‖f_t‖².
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.evaluation import select_per_task
from algorithms.families.kernel_machines.algorithm import (
    MachineAlgorithm,
    candidates,
    selection_loss,
)
from algorithms.families.kernel_machines.ascent import AscentMethod, coordinate_ascent
from algorithms.families.kernel_machines.building import Solution, solution_of
from algorithms.families.kernel_machines.examples import Target
from algorithms.families.kernel_machines.output_kernels import fixed_kernel
from algorithms.families.kernel_machines.params import MachineParams, Strength
from algorithms.families.kernel_machines.preparation import Prepared, loss_of
from algorithms.families.kernel_machines.problem import Problem
from algorithms.families.kernel_machines.work import estimate_ascent_of_machines
from algorithms.interface.errors import InvalidParams
from algorithms.interface.params import end_warnings_by_task
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.arrays import Array

P = TypeVar("P", bound=MachineParams)
#: Weight of an edge.
EdgeWeight = Annotated[float, Field(ge=0.0, le=1e6)]


class TaskMachinesParams(MachineParams):
    """Parameters of a kernel machine per task."""

    selection_scope: Literal["all", "task"] = Field(
        "all",
        title="Scope of the selection of C",
        description="If 'selection' is 'cv': 'all' selects one C for all tasks, 'task' selects a C "
        "for each task by its own held-out rows.",
    )
    C_by_task: dict[str, Strength] = Field(
        {},
        max_length=100_000,
        title="Strength C of single tasks",
        description="Values of C by task name; other tasks have C.",
    )


class MeanMachinesParams(MachineParams):
    """Parameters of machines near their mean."""

    share: float = Field(
        0.5,
        ge=0.0,
        le=1.0,
        title="Common share a",
        description="Share of the prior variance that is common to all tasks. 0: a separate "
        "machine per task. 1: one machine for the rows of all tasks.",
    )


class GraphMachinesParams(MachineParams):
    """Parameters of machines on a graph of tasks."""

    edges: dict[str, dict[str, EdgeWeight]] = Field(
        {},
        max_length=10_000,
        title="Edges of the graph",
        description="Weights of pairs of neighbours, such as {'north': {'east': 1, 'west': 0.5}}; "
        "each pair once. Without edges, each task has a separate machine.",
    )
    delta: float = Field(
        0.1,
        ge=1e-6,
        le=1e6,
        title="Own part δ",
        description="Weight of the functions relative to the differences between neighbours. "
        "Small: neighbours are alike. Large: each task has a separate machine.",
    )


class _FixedOutputKernel(MachineAlgorithm[P]):
    """Base class: kernel machines for a fixed Θ."""

    reference = "Evgeniou and Pontil (2004), doi:10.1145/1014052.1014067"

    @abstractmethod
    def relation(self, params: P, *, targets: Sequence[Target]) -> Array:
        """Return Θ (T, T)."""

    def solve(
        self, prepared: Prepared, params: P, *, seed: int, trace: Trace
    ) -> tuple[str, Solution]:
        """Return the machines for Θ."""
        examples = prepared.examples
        kernel = fixed_kernel(self.relation(params, targets=examples.targets), C=params.C)
        problem = Problem(examples, prepared.K, loss_of(params, examples), kernel)
        method: AscentMethod = "blocks" if examples.is_shared else "tasks"
        end = coordinate_ascent(
            problem, method, seed=seed, max_iter=params.max_iter, tolerance=params.tolerance,
            trace=trace,
        )  # fmt: skip
        return method, solution_of(problem, end.kappa, reason=trace.stop_reason)


class TaskMachines(_FixedOutputKernel[TaskMachinesParams]):
    """A kernel machine for each task."""

    name = "kernel-tasks"
    role = "single_task"
    title = "Kernel machine per task"
    summary = (
        "Support vector machine, ridge or logistic regression with a kernel, for each task from "
        "its own rows. For tasks with many rows."
    )
    Params = TaskMachinesParams

    def check(self, summaries: Sequence[TaskSummary], params: TaskMachinesParams) -> None:
        """Raise InvalidData or InvalidParams if tasks, loss or memory are unsuitable."""
        super().check(summaries, params)
        names = [task.name for task in summaries]
        unknown = sorted(set(params.C_by_task).difference(names))
        if unknown:
            raise InvalidParams(
                f"'C_by_task' has the unknown task '{unknown[0]}'; the dataset has {names[:20]}",
                field="C_by_task",
            )

    def select_strength(
        self, tasks: TaskSet, params: TaskMachinesParams, *, trace: Trace, rng: np.random.Generator
    ) -> tuple[TaskMachinesParams, dict[str, Any]]:
        """Return the parameters with C selected by cross-validation, for all tasks or per task."""
        if params.selection_scope == "all":
            return super().select_strength(tasks, params, trace=trace, rng=rng)
        common, by_task = select_per_task(
            self, tasks.by_name(), candidates(params), n_folds=params.n_folds, trace=trace,
            rng=rng, loss=selection_loss(tasks, params),
        )  # fmt: skip
        strengths = {"C_by_task": {name: selected.C for name, selected in by_task.items()}}
        fit_info = {"cv_loss": list(common.losses), **common.fit_info, **strengths}
        return common.params.model_copy(update=strengths), fit_info

    def selection_warnings(
        self,
        requested: TaskMachinesParams,
        chosen: TaskMachinesParams,
        fit_info: Mapping[str, Any],
    ) -> tuple[str, ...]:
        """Return warnings about tasks whose C is at an end of the grid."""
        if requested.selection_scope == "all":
            return super().selection_warnings(requested, chosen, fit_info)
        by_task = {name: {"C": C} for name, C in chosen.C_by_task.items()}
        return end_warnings_by_task(requested, by_task)

    def relation(self, params: TaskMachinesParams, *, targets: Sequence[Target]) -> Array:
        """Return the diagonal of C_t/C, which is I if all tasks have the same C."""
        weights = [
            params.C_by_task.get(target.task, params.C) / params.C
            for target in targets
            for _ in range(target.n_outputs)
        ]
        return np.diag(weights)


class MeanMachines(_FixedOutputKernel[MeanMachinesParams]):
    """Kernel machines near their mean."""

    name = "kernel-mean"
    title = "Kernel machines near their mean"
    summary = (
        "Every task is a common function plus a function of its own, with a fixed common share. "
        "For tasks that are all similar; fmtl learns which tasks are."
    )
    Params = MeanMachinesParams

    def solver_work(
        self, summaries: Sequence[TaskSummary], params: MeanMachinesParams
    ) -> WorkEstimate:
        """Return the work of the ascent, which needs more passes the more tasks are related."""
        is_related = 0.0 < params.share < 1.0
        return estimate_ascent_of_machines(summaries, params, related=float(is_related))

    def relation(self, params: MeanMachinesParams, *, targets: Sequence[Target]) -> Array:
        """Return (1 - a)I + aB, with B_rs = 1 if outputs r and s have the same classes."""
        is_same = _have_same_classes(targets)
        n = len(is_same)
        return np.asarray((1.0 - params.share) * np.eye(n) + params.share * is_same)


class GraphMachines(_FixedOutputKernel[GraphMachinesParams]):
    """Kernel machines on a given graph of tasks."""

    name = "kernel-graph"
    title = "Kernel machines on a graph of tasks"
    summary = (
        "Neighbours in a graph that you know, such as regions with a common border or a hierarchy, "
        "have similar functions. Every node is a task with rows."
    )
    reference = "Evgeniou, Micchelli, Pontil (2005), https://jmlr.org/papers/v6/evgeniou05a.html"
    Params = GraphMachinesParams

    def check(self, summaries: Sequence[TaskSummary], params: GraphMachinesParams) -> None:
        """Raise InvalidData or InvalidParams if tasks, loss, memory or edges are unsuitable."""
        super().check(summaries, params)
        names = [task.name for task in summaries]
        pairs = [(s, t) for s, others in params.edges.items() for t in others]
        unknown = sorted({name for pair in pairs for name in pair}.difference(names))
        if unknown:
            raise InvalidParams(
                f"'edges' has the unknown task '{unknown[0]}'; the dataset has {names[:20]}",
                field="edges",
            )
        if len({frozenset(pair) for pair in pairs}) < len(pairs) or any(s == t for s, t in pairs):
            raise InvalidParams(
                "'edges' has a pair of tasks twice, or an edge from a task to itself; list each "
                "pair of different tasks once",
                field="edges",
            )

    def relation(self, params: GraphMachinesParams, *, targets: Sequence[Target]) -> Array:
        """Return (L + δI)⁻¹ / its mean diagonal, for outputs of the same classes."""
        position = {target.task: i for i, target in enumerate(targets)}
        L = params.delta * np.eye(len(targets))
        for s, others in params.edges.items():
            for t, weight in others.items():
                ends = np.ix_([position[s], position[t]], [position[s], position[t]])
                L[ends] += weight * np.array([[1.0, -1.0], [-1.0, 1.0]])
        Theta = np.linalg.inv(L)
        Theta = (Theta + Theta.T) / (2 * np.mean(np.diag(Theta)))
        which = [i for i, target in enumerate(targets) for _ in range(target.n_outputs)]
        return np.asarray(Theta[np.ix_(which, which)] * _have_same_classes(targets))


def _have_same_classes(targets: Sequence[Target]) -> NDArray[np.bool_]:
    """Return whether two outputs have the same classes, (T, T)."""
    output_classes = [classes for target in targets for classes in target.output_classes()]
    number = {classes: i for i, classes in enumerate(dict.fromkeys(output_classes))}
    which = np.array([number[classes] for classes in output_classes])
    return np.asarray(which[:, np.newaxis] == which)
