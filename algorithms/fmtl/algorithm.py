"""FMTL: kernel machines of several tasks, and the output kernel Θ that relates the tasks.

Examples (x_i, y_i, t_i), i = 1..n, of T tasks (outputs); input kernel k; K_rs its block of the rows
of tasks r and s. Learned are a positive semidefinite Θ (T, T) and functions F(x, t):

    min  C Σ_i L(y_i, F(x_i, t_i)) + ½‖F‖² + λ V(Θ),   ‖F‖ in the space of k(x, z) Θ_st   (2), (6)

with V(Θ) = ½ Σ_rs |Θ_rs|^p, p = 2k/(2k-1). With dual variables α (n,), ρ_rs = ⟨α_r, K_rs α_s⟩/(2λ)
and V* separable with a power series of terms >= 0, the maximising Θ = ∇V*(ρ) is positive
semidefinite by itself: no eigendecomposition of Θ, and an unconstrained dual,

    max  -C Σ_i L*(-α_i/C) - λ V*(ρ)                                                       (11)
    Θ_rs = ((2k-1)/k ρ_rs)^(2k-1),  F(x, s) = Σ_j α_j Θ_{s,t_j} k(x_j, x)          (10), Lemma 2

1. *One parameter.* With κ = α/C only C^{4k-1}/λ^{2k-1} counts: one grid, over C. On the relative
   scale λ is such that C means about what it means in one support vector machine.
2. *The scale of V* is printed in three ways; see :mod:`algorithms.kernel_machines.output_kernels`.
   Table 1 prints arcsinh for the maximiser of cosh; it is sinh.
3. *Certificate.* Each example has L - gain + κF >= 0, and the sum of all is the duality gap: the
   stopping rule, and a metric per task.
4. *Cost.* A step of the paper's SDCA (13) costs O(n + T) (O(dT) with a linear kernel), not O(T) as
   printed, since the products with every task must be kept. What is faster is in
   :mod:`algorithms.kernel_machines.ascent`, :mod:`algorithms.fmtl.spectral`,
   :mod:`algorithms.fmtl.alternating` and :mod:`algorithms.fmtl.newton`.
5. *No bias* in the paper. Numbers are centred per task; labels get a constant feature (intercept).
6. *One-vs-all.* A task of more than two classes is one output per class, on shared rows; tasks of
   the very same rows share them as well. Of two classes the one that sorts last is positive: give
   them the same names in every task, or the signs of relations mean nothing.

When it pays: related tasks with few rows each. With enough rows, or tasks that have nothing in
common, a machine per task is as good. p < 2 gives sparser relations, not better scores. Figures are
by ``benchmarks/fmtl_tables.py``, C by cross-validation inside the training rows, mean of ten splits
(one of MNIST), standard deviations 0.6 to 2.9: AUC of Landmine's 19 fields, 80 rows each; explained
variance within 42 patients (Parkinsons, 20 rows each, RBF kernel) and of 139 schools; share of
right digits from 1000 rows of USPS and of MNIST, one task of ten classes.

                        alone   near the mean   MTRL    p = 2   p = 4/3   p = 8/7
    Landmine             72.6        74.9       76.5    76.9     76.4      76.6
    Parkinsons           80.4        75.9       90.5    87.6     83.4      80.8
    School               34.3        38.1       34.6    36.4     35.8      35.2
    USPS, hinge          95.2         -         95.1    95.2     95.2      95.1
    USPS, squared        95.4         -         95.4    95.4     95.3      95.1
    MNIST, hinge         94.0         -         93.8    93.2     92.8      93.6
    MNIST, squared       93.8         -         93.6    93.6     93.2      93.6

The relations of Landmine show its foliated and its bare fields as two groups, which nobody named
(``benchmarks/fmtl_relations.py``): within 0.62 and 0.57, between 0.30 for p = 2; 0.51, 0.39 and
0.13 for p = 8/7.

Reference: Jawanpuria, Lapin, Hein, Schiele, *Efficient Output Kernel Learning for Multiple Tasks*,
NIPS 2015, https://arxiv.org/abs/1511.05706
"""

import json
from collections.abc import Sequence

from algorithms.fmtl.params import FMTLParams
from algorithms.fmtl.solvers import check_solver, solve
from algorithms.interface.algorithm import Baseline
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.kernel_machines.adaptation import adapt_to_task, check_new_task
from algorithms.kernel_machines.algorithm import MachineAlgorithm
from algorithms.kernel_machines.building import Solution
from algorithms.kernel_machines.examples import examples_of
from algorithms.kernel_machines.model import KernelMachine
from algorithms.kernel_machines.params import PENALTY_PARAMS, SHARED_PARAMS
from algorithms.kernel_machines.preparation import Prepared, loss_of, mean_rows, penalty_of


class FMTL(MachineAlgorithm[FMTLParams]):
    """Output-kernel learning."""

    name = "fmtl"
    title = "Output-kernel learning"
    summary = (
        "Kernel machines for several tasks of the same columns, regression or classification, and "
        "a matrix that says how the tasks are related, learned together. For related tasks with "
        "few rows each; with many rows, compare with a machine per task."
    )
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
        """Raise InvalidData or InvalidParams where tasks, loss, solver or memory do not fit."""
        super().check(summaries, params)
        check_solver(summaries, params)

    def solve(
        self, prepared: Prepared, params: FMTLParams, *, seed: int, trace: Trace
    ) -> tuple[str, Solution]:
        """Return the machines and the Θ that solve (6)."""
        kernel = penalty_of(params, mean_rows(prepared.examples))
        return solve(prepared, params, kernel, seed=seed, trace=trace)

    def adapt_task(self, model: KernelMachine, task: Task, *, trace: Trace) -> KernelMachine:
        """Return the model with one more task, the α of the others frozen.

        They answer as before. The gap of the new task's own problem is among the metrics, and a
        warning where it is above the tolerance.
        """
        params = FMTLParams.model_validate_json(json.dumps(model.fit_info["params"]))
        check_new_task(model, task, memory_gb=params.memory_gb)
        examples = examples_of(
            TaskSet((task,)), center=params.center_targets, weights=params.class_weight,
            prior=model.prior,
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
