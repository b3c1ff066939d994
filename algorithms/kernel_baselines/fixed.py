"""Kernel machines whose output kernel is given: a machine per task, or tasks near their mean.

    min  C Σ L(y_i, F(x_i, t_i)) + ½‖F‖²,   ‖F‖ in the space of k(x, z) Θ_st

With Θ = I each task has a machine of its own (support vector machine, ridge, ...). With
Θ = (1 - a)I + a 11ᵀ every task is a common function plus one of its own, and a is how much of the
prior variance is common (Evgeniou and Pontil 2004); a = 1 is one machine for all rows. Outputs of
one meaning are tied so: numbers, the same pair of classes, or the same class of several; tasks
whose classes differ, and the classes of one task, are not.

Cost: dual coordinate ascent as for output-kernel learning, Θ constant.

Reference: Evgeniou, Pontil, *Regularized multi-task learning*, KDD 2004,
doi:10.1145/1014052.1014067
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.evaluation import select_per_task
from algorithms.interface.errors import InvalidParams
from algorithms.interface.grid_ends import end_warnings_by_task
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.kernel_machines.algorithm import MachineAlgorithm, candidates, selection_loss
from algorithms.kernel_machines.ascent import AscentMethod, Problem, coordinate_ascent
from algorithms.kernel_machines.building import Solution, solution_of
from algorithms.kernel_machines.examples import Target, output_classes_of
from algorithms.kernel_machines.output_kernels import fixed_kernel
from algorithms.kernel_machines.params import MachineParams, Strength
from algorithms.kernel_machines.preparation import Prepared, loss_of

Array = NDArray[np.float64]
P = TypeVar("P", bound=MachineParams)


class TaskMachinesParams(MachineParams):
    """Parameters of a kernel machine per task."""

    selection_scope: Literal["all", "task"] = Field(
        "all",
        title="Scope of the choice of C",
        description="When 'selection' is 'cv'. 'all': one C for all tasks. 'task': each task has "
        "its own, by its own held-out rows.",
    )
    C_by_task: dict[str, Strength] = Field(
        {},
        max_length=100_000,
        title="Strength C of single tasks",
        description="By name; tasks that are not named have C.",
    )


class MeanMachinesParams(MachineParams):
    """Parameters of machines near their mean."""

    share: float = Field(
        0.5,
        ge=0.0,
        le=1.0,
        title="Common share a",
        description="Part of the prior variance that all tasks have in common: 0 is a machine per "
        "task, 1 one machine for the rows of all.",
    )


class _FixedOutputKernel(MachineAlgorithm[P]):
    """Kernel machines for a given Θ."""

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
    title = "Kernel machine per task"
    summary = (
        "Support vector machine, ridge or logistic regression with a kernel, each task from its "
        "own rows alone. The baseline for tasks with many rows."
    )
    Params = TaskMachinesParams

    def check(self, summaries: Sequence[TaskSummary], params: TaskMachinesParams) -> None:
        """Raise InvalidData or InvalidParams where tasks, loss or memory do not fit."""
        super().check(summaries, params)
        names = [task.name for task in summaries]
        unknown = sorted(set(params.C_by_task).difference(names))
        if unknown:
            raise InvalidParams(
                f"'C_by_task' names the task '{unknown[0]}', which is not among {names[:20]}",
                field="C_by_task",
            )

    def select_strength(
        self, tasks: TaskSet, params: TaskMachinesParams, *, trace: Trace, rng: np.random.Generator
    ) -> tuple[TaskMachinesParams, dict[str, Any]]:
        """Return the parameters with the C that cross-validation chooses, for all or for each."""
        if params.selection_scope == "all":
            return super().select_strength(tasks, params, trace=trace, rng=rng)
        common, own = select_per_task(
            self, tasks.by_name(), candidates(params), n_folds=params.n_folds, trace=trace,
            rng=rng, loss=selection_loss(tasks, params),
        )  # fmt: skip
        found = {"C_by_task": {name: one.C for name, one in own.items()}}
        fit_info = {"cv_loss": list(common.losses), **common.fit_info, **found}
        return common.params.model_copy(update=found), fit_info

    def selection_warnings(
        self, asked: TaskMachinesParams, chosen: TaskMachinesParams
    ) -> tuple[str, ...]:
        """Return a warning for each end of the grid at which tasks have their C."""
        if asked.selection_scope == "all":
            return super().selection_warnings(asked, chosen)
        own = {name: {"C": C} for name, C in chosen.C_by_task.items()}
        return end_warnings_by_task(asked, own)

    def relation(self, params: TaskMachinesParams, *, targets: Sequence[Target]) -> Array:
        """Return I, or a diagonal of C_t/C where tasks have a C of their own."""
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
        "Every task is a common function plus one of its own, in a proportion that is given. The "
        "baseline for tasks that are all alike; fmtl learns which are."
    )
    Params = MeanMachinesParams

    def relation(self, params: MeanMachinesParams, *, targets: Sequence[Target]) -> Array:
        """Return (1 - a)I + aB, B_rs = 1 where outputs r and s mean the same."""
        output_classes = output_classes_of(targets)
        number = {meaning: i for i, meaning in enumerate(dict.fromkeys(output_classes))}
        which = np.array([number[meaning] for meaning in output_classes])
        is_same = which[:, np.newaxis] == which
        return np.asarray((1.0 - params.share) * np.eye(len(which)) + params.share * is_same)
