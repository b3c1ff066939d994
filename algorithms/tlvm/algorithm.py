"""TLVM: a latent variable model of a source task, transferred to target tasks.

Columns of the rows Y (N, D) are independent given latents X (N, L): y_d ~ N(0, K) with

    K_ij = a exp(-g/2 ‖x_i - x_j‖²) + (w + floor) δ_ij        (eq. 2; or a linear kernel)

where w + floor is the noise variance, with a fixed lower bound ``floor``. A task is represented by
its r most informative rows, its *active* rows. From the source, TLVM learns the latents X_I of the
active rows, and θ = (ln a, ln g, ln w). For each target with rows Y_t it then optimises θ, X_I and
the latents X_tJ of the target's active rows jointly:

    min  -ln N([Y_I; Y_tJ]; 0, K([X_I; X_tJ])) + λ D · Div(N(0, K_aa), N(0, K_bb))

Each active row of the target is paired with a row of the source; Div is a divergence between the
covariances of the paired rows a (source) and b (target). A new row gets the most likely latent
(eq. 25) and the reconstruction ŷ = YᵀK⁻¹k (eq. 27). Cost of a step: O(r³ + r² min(r, D)).

This is the objective 'joint' with the default λ = 0, because the divergence does not help. The
objective as printed in the paper (eq. 19) does not depend on the target's rows. With few target
rows ``transfer-pca`` is usually as good and far cheaper; with 20 to 40 or more, so are ``gp-lvm``
and ``pca`` of the target alone.

A fit runs in five steps; ``paper.py`` has the paper's own algorithm (folders are
those of ``algorithms``):

1. ``algorithm.py``: ``fit`` checks the tasks, picks the source, and centres and scales rows.
2. ``families/latent/gp.py``: the source's active rows (``numerics/informative_rows.py``) and
   latents are learned.
3. ``transfer.py``: the target's rows are projected and its active rows are selected.
4. ``objectives.py``: F and its gradient, which ``solvers/lbfgs.py`` minimises over θ and all
   latents.
5. ``families/latent/parts.py``: latents of all rows and their labels become the model of
   ``families/latent/model.py``.

Deviations and misprints: ``docs/explanation/papers.md``. Results: ``docs/benchmarks/accuracy.md``.

References: Gao, Wang, Li, Tao, *Transfer latent variable model based on divergence analysis*,
Pattern Recognition 44, 2011; GP-LVM: https://jmlr.org/papers/v6/lawrence05a.html; active rows:
Lawrence, Seeger, Herbrich, *Fast sparse Gaussian process methods*, NIPS 2003
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.families.latent.gp import LatentGP, centred_rows, fit_latent_gp, row_scale
from algorithms.families.latent.model import (
    LatentModel,
    convergence_warnings,
    rank_warnings,
    scale_warnings,
)
from algorithms.families.latent.params import LatentParams
from algorithms.families.latent.parts import (
    LatentPart,
    build_part,
    labelled_task,
    n_projections,
)
from algorithms.families.latent.source import SourceParams, choose_source
from algorithms.families.latent.work import active_rows, estimate_optimisation, estimate_projection
from algorithms.interface.algorithm import Algorithm, Baseline, Role
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.threads import limit_blas_threads
from algorithms.tlvm.params import TLVMParams
from algorithms.tlvm.transfer import N_LOOPS, TransferResult, transfer

#: Parameters that TLVM shares with the GP-LVM.
SHARED_PARAMS = (*SourceParams.model_fields, *LatentParams.model_fields)


def _latent(rows: str, role: Role) -> Baseline:
    """Return the GP-LVM with the given training rows and the same other parameters."""
    return Baseline("gp-lvm", role, copied_params=SHARED_PARAMS, values={"rows": rows})


def _linear(name: str, weight: float, **values: Any) -> Baseline:
    """Return a linear baseline of source and weighted target, with k equal to the L of TLVM."""
    return Baseline(
        name,
        "multi_task",
        copied_params=("source",),
        values={**values, "weight": weight},
        variant=f"target weight {weight:g}",
        renamed_params={"k": "L"},
    )


class TLVM(Algorithm[TLVMParams, LatentModel]):
    """Transfer of a Gaussian-process latent variable model."""

    name = "tlvm"
    title = "Transfer latent variable model"
    summary = (
        "A nonlinear latent space that is learned on a source task and transferred to target "
        "tasks, by one Gaussian process over the most informative rows of both. Fills in missing "
        "values and returns variances. To reconstruct targets with few rows, transfer-pca is as "
        "good or better on most data, and far cheaper."
    )
    question = "One group has many rows, the others few: can they use its structure?"
    reference = (
        "Gao et al. (2011), Pattern Recognition 44; "
        "Lawrence (2005), https://jmlr.org/papers/v6/lawrence05a.html"
    )
    needs = Needs(same_features=True, optional_target="classes")
    baselines = (
        _latent("own", "single_task"),
        Baseline("pca", "single_task", renamed_params={"k": "L"}),
        _latent("pooled", "pooled"),
        _latent("source", "multi_task"),
        _linear("transfer-pca", weight=10.0),
        _linear("transfer-pca", weight=100.0),
        _linear("ppca", weight=10.0, rows="weighted"),
    )
    monotone = "down"
    Params = TLVMParams
    Model = LatentModel

    def check(self, summaries: Sequence[TaskSummary], params: TLVMParams) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        choose_source(summaries, params.source, algorithm=self.name)

    def work(self, summaries: Sequence[TaskSummary], params: TLVMParams) -> WorkEstimate:
        """Return the work of the source's model, the transfers, and the latents of all rows."""
        name = choose_source(summaries, params.source, algorithm=self.name)
        source = next(summary for summary in summaries if summary.name == name)
        targets = [summary for summary in summaries if summary.name != name]
        r, D = active_rows(source.n_samples, params), source.n_features
        total = estimate_optimisation(r, params, n_features=D).times(params.n_init)
        total += estimate_projection(summaries, r, n_features=D)
        for summary in targets:
            n_active = r + active_rows(summary.n_samples, params)
            total += estimate_optimisation(n_active, params, n_features=D)
            total += estimate_projection([summary], n_active, n_features=D)
        return total

    def fit(
        self, tasks: TaskSet, params: TLVMParams, *, trace: Trace, rng: np.random.Generator
    ) -> LatentModel:
        """Return the model of the source, transferred to each target."""
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        source = tasks[choose_source(tasks.summaries(), params.source, algorithm=self.name)]
        targets = [task for task in tasks.by_name() if task is not source]
        labelled = {task.name: labelled_task(task, source) for task in tasks}
        trace.expect_loops(
            params.n_init
            + N_LOOPS * len(targets)
            + sum(n_projections(task, labelled[task.name]) for task in tasks)
        )
        with limit_blas_threads(2 * params.r):
            Y, mean = centred_rows(source)
            scale = row_scale(Y, task=source.name)
            gp = fit_latent_gp(Y / scale, params, trace=trace, loop="source", rng=rng)
            parts = {
                source.name: build_part(
                    gp.predictor(params),
                    source,
                    mean=mean,
                    scale=scale,
                    labelled=labelled[source.name],
                    is_robust=params.projection == "robust",
                    trace=trace,
                )
            }
            results: dict[str, TransferResult] = {}
            for task in targets:
                results[task.name], parts[task.name] = _transfer_part(
                    gp, task, params, labelled=labelled[task.name], scale=scale, trace=trace
                )
        return LatentModel(
            algorithm=self.name,
            tasks=tasks.names,
            parts=tuple(parts[name] for name in tasks.names),
            source_rows=gp.Y,
            fit_info={
                "params": params.model_dump(mode="json"),
                "source": source.name,
                "objective": gp.value,
                "by_task": {name: _fit_info(result) for name, result in results.items()},
            },
            warnings=(
                *rank_warnings(params.L, gp.X.shape[1], task=source.name),
                *(warning for task in targets for warning in scale_warnings(scale, task)),
                *convergence_warnings(trace, max_iter=params.max_iter),
            ),
        )

    def final_objective(self, params: TLVMParams, trace: Trace) -> None:
        """Return None: each task has an objective of its own."""
        del params, trace

    def adapt_task(self, model: LatentModel, task: Task, *, trace: Trace) -> LatentModel:
        """Return the model with a new target, for which the source's active rows are enough.

        A target without labels does not get the labels of the source, because the model does not
        store the source's other rows.
        """
        params = TLVMParams.model_validate(model.fit_info["params"])
        part = model.part_of(model.fit_info["source"])
        process = part.process
        gp = LatentGP(process.theta, process.active, model.source_rows, model.fit_info["objective"])
        labelled = task if task.target == "classes" else None
        trace.expect_loops(N_LOOPS + n_projections(task, labelled))
        with limit_blas_threads(2 * params.r):
            result, new = _transfer_part(
                gp, task, params, labelled=labelled, scale=part.scale, trace=trace
            )
        by_task = {**model.fit_info["by_task"], task.name: _fit_info(result)}
        return replace(
            model,
            tasks=(*model.tasks, task.name),
            parts=(*model.parts, new),
            fit_info={**model.fit_info, "by_task": by_task},
            warnings=(
                *model.warnings,
                *scale_warnings(part.scale, task),
                *convergence_warnings(trace, max_iter=params.max_iter, task=task.name),
            ),
        )


def _transfer_part(
    gp: LatentGP,
    task: Task,
    params: TLVMParams,
    *,
    labelled: Task | None,
    scale: float,
    trace: Trace,
) -> tuple[TransferResult, LatentPart]:
    Yt, mean = centred_rows(task)
    result = transfer(gp, Yt / scale, params, trace=trace, name=task.name)
    part = build_part(
        result.process,
        task,
        mean=mean,
        scale=scale,
        labelled=labelled,
        is_robust=params.projection == "robust",
        trace=trace,
    )
    return result, part


def _fit_info(result: TransferResult) -> dict[str, Any]:
    """Return the results of a transfer as JSON."""
    return {
        "objective": result.value,
        "divergence": result.divergence,
        "theta": result.process.theta.tolist(),
        "n_active": len(result.process.active),
    }
