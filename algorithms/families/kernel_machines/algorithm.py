"""The base class of output-kernel learning and its baselines; subclasses add the solver."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from algorithms.evaluation import held_out_loss, select_params
from algorithms.evaluation.selection.failures import failure_warnings
from algorithms.evaluation.selection.selection import Loss
from algorithms.families.kernel_machines.building import Solution, build_machine
from algorithms.families.kernel_machines.model import KernelMachine
from algorithms.families.kernel_machines.params import MachineParams
from algorithms.families.kernel_machines.preparation import (
    Prepared,
    check_machine,
    check_target_sizes,
    mean_rows,
    prepare,
)
from algorithms.families.kernel_machines.work import (
    estimate_ascent_of_machines,
    estimate_kernel,
    estimate_machine,
    estimate_predictions,
)
from algorithms.interface.algorithm import Algorithm, PreparedFold
from algorithms.interface.errors import Diverged, InvalidParams
from algorithms.interface.needs import Needs
from algorithms.interface.params import end_warnings, losses_by_value
from algorithms.interface.target_scales import scales_by_task
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import MemoryEstimate, WorkEstimate, estimate_selection, without_fold
from algorithms.numerics.threads import limit_blas_threads

P = TypeVar("P", bound=MachineParams)


class MachineAlgorithm(Algorithm[P, KernelMachine]):
    """Kernel machines of several tasks: select C, prepare the data, solve, build the model."""

    needs = Needs(same_features=True, target="any", sparse=True, weights=True)
    path_param = "C"
    monotone = "up"
    Model = KernelMachine

    @abstractmethod
    def solve(
        self, prepared: Prepared, params: P, *, seed: int, trace: Trace
    ) -> tuple[str, Solution]:
        """Return the name of the solver and its solution."""

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData or InvalidParams if tasks, loss or memory are unsuitable."""
        super().check(summaries, params)
        check_machine(summaries, params, algorithm=self.name)

    def memory(self, summaries: Sequence[TaskSummary], params: P) -> MemoryEstimate:
        """Return the memory of the rows, and of the kernel matrix or its features."""
        return estimate_machine(summaries, params)

    def work(self, summaries: Sequence[TaskSummary], params: P) -> WorkEstimate:
        """Return the work of the kernel, the solver, and the selection of C."""
        is_shared = self.needs.shared_rows
        final = estimate_kernel(summaries, params, is_shared=is_shared)
        final += self.solver_work(summaries, params)
        if params.selection == "given":
            return final
        # one kernel matrix for all candidates of a fold
        fold = without_fold(summaries, params.n_folds)
        fold_work = self.solver_work(fold, params)
        fold_work += estimate_predictions(summaries, params, is_shared=is_shared)
        kernel = estimate_kernel(fold, params, is_shared=is_shared)
        kernels = replace(
            kernel.times(params.n_folds),
            largest=f"{kernel.largest} in each of {params.n_folds} folds",
        )
        return estimate_selection(
            fold_work, final + kernels, n_candidates=len(params.grid), n_folds=params.n_folds
        )

    def solver_work(self, summaries: Sequence[TaskSummary], params: P) -> WorkEstimate:
        """Return the work of :meth:`solve`."""
        return estimate_ascent_of_machines(summaries, params)

    def check_held_out(self, params: P) -> None:
        """Raise InvalidParams for a precomputed kernel, whose columns are the training rows."""
        if params.kernel == "precomputed":
            raise InvalidParams(
                "kernel 'precomputed' has a column for each training row, so no row can be held "
                "out; train without search, comparison and evaluation, and score the model on "
                "other rows",
                field="kernel",
            )

    def fit(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> KernelMachine:
        """Return the model for the given C, or for the C selected by cross-validation."""
        params, fit_info, warnings = self.choose(tasks, params, trace=trace, rng=rng)
        prepared = prepare(tasks, params, rng=rng)
        seed = int(rng.integers(2**32))
        model = self.fit_prepared(tasks, prepared, params, fit_info, seed=seed, trace=trace)
        return model.with_warnings(*warnings)

    def choose(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> tuple[P, dict[str, Any], tuple[str, ...]]:
        """Check the tasks; return parameters with the C to use, results as JSON, and warnings."""
        self.check(tasks.summaries(), params)
        trace.expect_loops(2 if params.selection == "cv" else 1)
        if params.selection == "given":
            return params, {}, ()
        chosen, fit_info = self.select_strength(tasks, params, trace=trace, rng=rng)
        failures = failure_warnings(fit_info.get("failed_candidates", ()))
        return chosen, fit_info, (*failures, *self.selection_warnings(params, chosen, fit_info))

    def select_strength(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> tuple[P, dict[str, Any]]:
        """Return the parameters with C selected by cross-validation, and results as JSON."""
        chosen = select_params(
            self, tasks.by_name(), candidates(params), n_folds=params.n_folds, trace=trace,
            rng=rng, loss=selection_loss(tasks, params),
        )  # fmt: skip
        return chosen.params, {"cv_loss": list(chosen.losses), **chosen.fit_info}

    def selection_warnings(
        self, requested: P, chosen: P, fit_info: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Return warnings about the C that :meth:`select_strength` selected."""
        losses = losses_by_value(candidates(requested), fit_info["cv_loss"], ["C"])
        return end_warnings(requested, {"C": chosen.C}, losses=losses)

    def fit_path(
        self, tasks: TaskSet, params: Sequence[P], *, trace: Trace, rng: np.random.Generator
    ) -> list[KernelMachine]:
        """Return the model of each C, with one kernel matrix and one eigendecomposition for all."""
        if any(candidate.selection != "given" for candidate in params):
            return super().fit_path(tasks, params, trace=trace, rng=rng)
        fold = self.prepare_fold(tasks, tasks, params[0], rng=rng)
        return [fold.fit(candidate, trace) for candidate in params]

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: P, *, rng: np.random.Generator
    ) -> PreparedFold[P, KernelMachine]:
        """Return a fold with one kernel matrix and one eigendecomposition for every C."""
        self.check(train.summaries(), params)
        prepared = prepare(train, params, rng=rng)
        seed = int(rng.integers(2**32))

        def fit(candidate: P, trace: Trace) -> KernelMachine:
            return self.fit_prepared(train, prepared, candidate, {}, seed=seed, trace=trace)

        return PreparedFold(fit, test)

    def fit_prepared(
        self,
        tasks: TaskSet,
        prepared: Prepared,
        params: P,
        fit_info: Mapping[str, Any],
        *,
        seed: int,
        trace: Trace,
    ) -> KernelMachine:
        """Return the model of the prepared rows for the given C.

        Parameters
        ----------
        prepared
            The rows of ``tasks``.
        fit_info
            Results of the selection of parameters.
        """
        # an overflow makes the certificate infinite
        with limit_blas_threads(_order(prepared)), np.errstate(over="ignore", invalid="ignore"):
            try:
                solver, solution = self.solve(prepared, params, seed=seed, trace=trace)
            except Diverged:
                check_target_sizes(prepared, tasks, relative_gap=math.inf)
                raise
            check_target_sizes(prepared, tasks, relative_gap=solution.certificate.relative_gap)
        fit_info = {
            **fit_info,
            "params": params.model_dump(mode="json"),
            "solver": solver,
            "mean_rows": mean_rows(prepared.examples),
        }
        return build_machine(
            prepared, solution, tasks, algorithm=self.name, C=params.C, fit_info=fit_info,
            tolerance=params.tolerance,
        )  # fmt: skip


def _order(prepared: Prepared) -> int:
    """Return the order of the largest matrix that a solver multiplies."""
    e = prepared.examples
    return max(e.X.shape[1] if prepared.K is None else len(prepared.K), e.n_outputs)


def candidates(params: P) -> list[P]:
    """Return the parameters for each C of the grid, in increasing order."""
    return [params.model_copy(update={"C": C, "selection": "given"}) for C in sorted(params.grid)]


def selection_loss(tasks: TaskSet, params: MachineParams) -> Loss:
    """Return the loss on held-out rows; errors of numbers are divided by the scales of tasks."""
    is_centered = params.center_targets == "task"
    return held_out_loss(scales_by_task(tasks, params.target_scaling, is_centered=is_centered))
