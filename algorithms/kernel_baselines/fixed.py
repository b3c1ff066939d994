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
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.trace import Trace
from algorithms.kernel_machines.algorithm import MachineAlgorithm
from algorithms.kernel_machines.ascent import AscentName, Problem, ascend
from algorithms.kernel_machines.building import Solution, solution_of
from algorithms.kernel_machines.examples import Target, meanings_of
from algorithms.kernel_machines.output_kernels import fixed_kernel
from algorithms.kernel_machines.params import MachineParams
from algorithms.kernel_machines.preparation import Prepared, loss_of

Array = NDArray[np.float64]
P = TypeVar("P", bound=MachineParams)


class TaskMachinesParams(MachineParams):
    """Parameters of a kernel machine per task."""


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


class _FixedRelation(MachineAlgorithm[P]):
    """Machines for a given Θ."""

    reference = "Evgeniou and Pontil (2004), doi:10.1145/1014052.1014067"

    @abstractmethod
    def relation(self, params: P, *, targets: Sequence[Target]) -> Array:
        """Give Θ (T, T)."""

    def solve(
        self, prepared: Prepared, params: P, *, seed: int, trace: Trace
    ) -> tuple[str, Solution]:
        """Give the machines for Θ."""
        examples = prepared.examples
        kernel = fixed_kernel(self.relation(params, targets=examples.targets), C=params.C)
        problem = Problem(examples, prepared.K, loss_of(params, examples), kernel)
        method: AscentName = "blocks" if examples.is_shared else "tasks"
        end = ascend(
            problem, method, seed=seed, max_iter=params.max_iter, tolerance=params.tolerance,
            trace=trace,
        )  # fmt: skip
        return method, solution_of(problem, end.kappa, reason=trace.stop_reason)


class TaskMachines(_FixedRelation[TaskMachinesParams]):
    """A kernel machine for each task."""

    name = "kernel-tasks"
    title = "Kernel machine per task"
    summary = (
        "Support vector machine, ridge or logistic regression with a kernel, each task from its "
        "own rows alone. The baseline for tasks with many rows."
    )
    Params = TaskMachinesParams

    def relation(self, params: TaskMachinesParams, *, targets: Sequence[Target]) -> Array:
        """Give I."""
        del params
        return np.eye(sum(target.n_outputs for target in targets))


class MeanMachines(_FixedRelation[MeanMachinesParams]):
    """Kernel machines near their mean."""

    name = "kernel-mean"
    title = "Kernel machines near their mean"
    summary = (
        "Every task is a common function plus one of its own, in a proportion that is given. The "
        "baseline for tasks that are all alike; fmtl learns which are."
    )
    Params = MeanMachinesParams

    def relation(self, params: MeanMachinesParams, *, targets: Sequence[Target]) -> Array:
        """Give (1 - a)I + aB, B_rs = 1 where outputs r and s mean the same."""
        meanings = meanings_of(targets)
        number = {meaning: i for i, meaning in enumerate(dict.fromkeys(meanings))}
        which = np.array([number[meaning] for meaning in meanings])
        is_same = which[:, np.newaxis] == which
        return np.asarray((1.0 - params.share) * np.eye(len(which)) + params.share * is_same)
