"""FMTL: kernel machines of several tasks, and an output kernel Θ that relates the tasks.

Given examples (x_i, y_i, t_i), i = 1..n, of T tasks (outputs), and an input kernel k with blocks
K_rs for the rows of tasks r and s, learn a positive semidefinite Θ (T, T) and functions F(x, t):

    min  C Σ_i L(y_i, F(x_i, t_i)) + ½‖F‖² + λ V(Θ),   ‖F‖ in the space of k(x, z) Θ_st   (2), (6)

with V(Θ) = ½ Σ_rs |Θ_rs|^p, p = 2k/(2k-1). With dual variables α (n,), ρ_rs = ⟨α_r, K_rs α_s⟩/(2λ)
and V* separable with a power series of terms >= 0, the maximising Θ = ∇V*(ρ) is positive
semidefinite without a constraint, and no eigendecomposition of Θ is needed:

    max  -C Σ_i L*(-α_i/C) - λ V*(ρ)                                                       (11)
    Θ_rs = ((2k-1)/k ρ_rs)^(2k-1),  F(x, s) = Σ_j α_j Θ_{s,t_j} k(x_j, x)          (10), Lemma 2

The solution depends on C and λ through C^{4k-1}/λ^{2k-1} alone, so C is the only parameter to tune.
Solvers stop on the duality gap. A task of c > 2 classes is c outputs on shared rows. For two
classes, the class that sorts last is positive: use the same labels in every task, or the signs of
relations have no meaning. Cost of a coordinate step: O(n + T), O(dT) with a linear kernel.

A fit runs in five steps; ``paper.py`` has the paper's own algorithm (folders are
those of ``algorithms``):

1. ``algorithm.py``: ``fit`` checks the tasks and takes parameters as in ``params.py``.
2. ``families/kernel_machines/algorithm.py``: cross-validation chooses C, if asked for.
3. ``families/kernel_machines/preparation.py``: rows and targets are standardised, and K is
   computed.
4. ``solvers.py``: ``solve`` picks the solver, such as ``spectral.py`` or
   ``families/kernel_machines/ascent.py``.
5. ``families/kernel_machines/building.py``: α and Θ become the machine of
   ``families/kernel_machines/model.py``, with its gap.

Deviations and misprints: ``docs/explanation/papers.md``. Results: ``docs/benchmarks/accuracy.md``.

Reference: Jawanpuria, Lapin, Hein, Schiele, *Efficient Output Kernel Learning for Multiple Tasks*,
NIPS 2015, https://arxiv.org/abs/1511.05706
"""

import json
from collections.abc import Sequence

import numpy as np

from algorithms.families.kernel_machines.adaptation import adapt_to_task, check_new_task
from algorithms.families.kernel_machines.algorithm import MachineAlgorithm
from algorithms.families.kernel_machines.building import Solution
from algorithms.families.kernel_machines.examples import examples_of
from algorithms.families.kernel_machines.model import KernelMachine
from algorithms.families.kernel_machines.params import PENALTY_PARAMS, SHARED_PARAMS
from algorithms.families.kernel_machines.preparation import (
    Prepared,
    loss_of,
    mean_rows,
    penalty_of,
    prepare,
)
from algorithms.fmtl.params import FMTLParams
from algorithms.fmtl.solvers import check_solver, solve, solver_work
from algorithms.interface.algorithm import Baseline
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate


class FMTL(MachineAlgorithm[FMTLParams]):
    """Output-kernel learning."""

    name = "fmtl"
    title = "Output-kernel learning"
    summary = (
        "Kernel machines for several tasks with the same columns, regression or classification, "
        "learned together with a matrix of the relations between tasks. For related tasks with "
        "few rows each; with many rows, compare with a machine per task."
    )
    question = "Which groups are related, and how strongly?"
    reference = "Jawanpuria et al. (2015), https://arxiv.org/abs/1511.05706"
    baselines = (
        Baseline(
            "kernel-tasks", "single_task", copied_params=SHARED_PARAMS, values={"selection": "cv"}
        ),
        Baseline(
            "kernel-tasks",
            "single_task",
            copied_params=SHARED_PARAMS,
            values={"selection": "cv", "selection_scope": "task"},
            variant="C per task",
        ),
        Baseline(
            "kernel-scaled",
            "single_task",
            copied_params=SHARED_PARAMS + PENALTY_PARAMS,
            values={"selection": "cv"},
        ),
        Baseline(
            "kernel-mean", "multi_task", copied_params=SHARED_PARAMS, values={"selection": "cv"}
        ),
    )
    Params = FMTLParams

    def check(self, summaries: Sequence[TaskSummary], params: FMTLParams) -> None:
        """Raise InvalidData or InvalidParams if tasks, loss, solver or memory are unsuitable."""
        super().check(summaries, params)
        check_solver(summaries, params)

    def solver_work(self, summaries: Sequence[TaskSummary], params: FMTLParams) -> WorkEstimate:
        """Return the work of the solver for tasks of these shapes."""
        return solver_work(summaries, params)

    def fit(
        self, tasks: TaskSet, params: FMTLParams, *, trace: Trace, rng: np.random.Generator
    ) -> KernelMachine:
        """Return the machines and Θ that solve (6), for the given or the selected C."""
        params, fit_info, warnings = self.choose(tasks, params, trace=trace, rng=rng)
        prepared = prepare(tasks, params, rng=rng)
        seed = int(rng.integers(2**32))
        model = self.fit_prepared(tasks, prepared, params, fit_info, seed=seed, trace=trace)
        return model.with_warnings(*warnings)

    def solve(
        self, prepared: Prepared, params: FMTLParams, *, seed: int, trace: Trace
    ) -> tuple[str, Solution]:
        """Return the machines and Θ that solve (6)."""
        kernel = penalty_of(params, mean_rows(prepared.examples))
        return solve(prepared, params, kernel, seed=seed, trace=trace)

    def adapt_task(self, model: KernelMachine, task: Task, *, trace: Trace) -> KernelMachine:
        """Return the model with a new task, with the α of the other tasks fixed.

        Predictions for the other tasks do not change. The metrics include the relative duality gap
        of the new task's problem; a gap above the tolerance causes a warning.
        """
        params = FMTLParams.model_validate_json(json.dumps(model.fit_info["params"]))
        check_new_task(model, task, memory_gb=params.memory_gb)
        examples = examples_of(
            TaskSet((task,)), center=params.center_targets, weights=params.class_weight,
            prior=model.target_prior,
        )  # fmt: skip
        return adapt_to_task(
            model,
            examples,
            loss=loss_of(params, examples),
            kernel=penalty_of(params, model.fit_info["mean_rows"]),
            max_iter=params.max_iter,
            tolerance=params.tolerance,
            trace=trace,
        )
