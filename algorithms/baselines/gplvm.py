"""GP-LVM: Gaussian-process latent variable models without transfer, the baselines of TLVM.

    min  (D r/2) ln 2π + (D/2) ln|K| + ½ tr(K⁻¹ Y_I Y_Iᵀ)   over latents X_I and θ

for the active (most informative) rows Y_I of each task alone, of the source (one model for all
tasks), or of the pooled rows of all tasks, where each task is centred by its own mean. Cost: see
:mod:`algorithms.families.latent.gp`.

Reference: Lawrence, *Probabilistic Non-linear Principal Component Analysis with Gaussian Process
Latent Variable Models*, JMLR 2005, https://jmlr.org/papers/v6/lawrence05a.html
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.families.latent.gp import centred_rows, fit_latent_gp, row_scale
from algorithms.families.latent.model import (
    LatentModel,
    convergence_warnings,
    rank_warnings,
)
from algorithms.families.latent.params import LatentParams
from algorithms.families.latent.parts import (
    LatentPart,
    build_part,
    labelled_task,
    n_projections,
)
from algorithms.families.latent.source import SourceParams, check_own_rows, choose_source
from algorithms.families.latent.work import active_rows, estimate_optimisation, estimate_projection
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate, n_rows
from algorithms.numerics.arrays import Array
from algorithms.numerics.latent_projection import Predictor
from algorithms.numerics.threads import limit_blas_threads


class GPLVMParams(LatentParams, SourceParams):
    """Parameters of a latent variable model without transfer."""

    rows: Literal["own", "source", "pooled"] = Field(
        "own",
        title="Training rows",
        description="'own': a model for each task, from its own rows. 'source': one model for all "
        "tasks, from the rows of the source. 'pooled': one model from the rows of all tasks.",
    )
    mean: Literal["own", "source"] = Field(
        "own",
        title="Mean",
        description="Mean that centres the rows of a task: the task's own, or the source's mean, "
        "as if the mean of the task were unknown.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """A process, the scale of its rows, and the value of its objective."""

    process: Predictor
    scale: float
    value: float


class GPLVM(Algorithm[GPLVMParams, LatentModel]):
    """A Gaussian-process latent variable model (GP-LVM)."""

    name = "gp-lvm"
    role = "single_task"
    title = "Gaussian-process latent variable model"
    summary = (
        "A nonlinear latent space of each task alone, of the source for all tasks, or of the "
        "pooled rows. The baselines of tlvm; with hundreds of rows per task, gp-lvm suffices."
    )
    reference = "Lawrence (2005), https://jmlr.org/papers/v6/lawrence05a.html"
    needs = Needs(same_features=True, optional_target="classes")
    monotone = "down"
    Params = GPLVMParams
    Model = LatentModel

    def check(self, summaries: Sequence[TaskSummary], params: GPLVMParams) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        choose_source(summaries, params.source, algorithm=self.name)
        if params.rows == "own":
            check_own_rows(summaries, algorithm=self.name)

    def work(self, summaries: Sequence[TaskSummary], params: GPLVMParams) -> WorkEstimate:
        """Return the work of the models, and of the latents of all rows."""
        D, n = summaries[0].n_features, n_rows(summaries)
        sizes = [summary.n_samples for summary in summaries]
        if params.rows != "own":
            sizes = [n if params.rows == "pooled" else max(sizes)]
        active = [active_rows(size, params) for size in sizes]
        total = estimate_projection(summaries, max(active), n_features=D)
        for r in active:
            total += estimate_optimisation(r, params, n_features=D).times(params.n_init)
        return total

    def fit(
        self, tasks: TaskSet, params: GPLVMParams, *, trace: Trace, rng: np.random.Generator
    ) -> LatentModel:
        """Return the models of the selected training rows."""
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        source = tasks[choose_source(tasks.summaries(), params.source, algorithm=self.name)]
        seed = int(rng.integers(2**32))
        ordered = tasks.by_name().tasks
        labelled = {task.name: _labelled(task, source, params) for task in tasks}
        n_models = len(tasks) if params.rows == "own" else 1
        trace.expect_loops(
            params.n_init * n_models + sum(n_projections(t, labelled[t.name]) for t in tasks)
        )
        with limit_blas_threads(params.r):
            fitted = _fit_processes(ordered, source, params, trace=trace, seed=seed)
            parts = {
                task.name: _build_part(
                    fitted[task.name],
                    task,
                    params,
                    mean=(source if params.mean == "source" else task).X.mean(axis=0),
                    labelled=labelled[task.name],
                    trace=trace,
                )
                for task in ordered
            }
        ranks = [(name, result.process.active.shape[1]) for name, result in fitted.items()]
        name, rank = min(ranks, key=lambda pair: pair[1])
        return LatentModel(
            algorithm=self.name,
            tasks=tasks.names,
            parts=tuple(parts[name] for name in tasks.names),
            source_rows=np.zeros((0, source.n_features)),
            fit_info={
                "params": params.model_dump(mode="json"),
                "source": source.name,
                "seed": seed,
                "by_task": {name: {"objective": result.value} for name, result in fitted.items()},
            },
            warnings=(
                *rank_warnings(params.L, rank, task=name),
                *convergence_warnings(trace, max_iter=params.max_iter),
            ),
        )

    def final_objective(self, params: GPLVMParams, trace: Trace) -> None:
        """Return None: each task has an objective of its own."""
        del params, trace

    def adapt_task(self, model: LatentModel, task: Task, *, trace: Trace) -> LatentModel:
        """Return the model with a new task: a process fitted to its rows, or the common one."""
        params = GPLVMParams.model_validate(model.fit_info["params"])
        source = model.part_of(model.fit_info["source"])
        trace.expect_loops(1 + params.n_init * (params.rows == "own"))
        with limit_blas_threads(params.r):
            if params.rows == "own":
                self.check([task.summary()], params.model_copy(update={"source": ""}))
                seed = model.fit_info["seed"]
                fitted = _fit_processes([task], task, params, trace=trace, seed=seed)[task.name]
            else:
                fitted = _Fitted(source.process, source.scale, 0.0)
            has_source_mean = params.rows != "own" and params.mean == "source"
            part = _build_part(
                fitted,
                task,
                params,
                mean=source.mean if has_source_mean else task.X.mean(axis=0),
                labelled=task if task.target == "classes" else None,
                trace=trace,
            )
        return replace(
            model,
            tasks=(*model.tasks, task.name),
            parts=(*model.parts, part),
            warnings=(
                *model.warnings,
                *convergence_warnings(trace, max_iter=params.max_iter, task=task.name),
            ),
        )


def _fit_processes(
    tasks: Sequence[Task], source: Task, params: GPLVMParams, *, trace: Trace, seed: int
) -> dict[str, _Fitted]:
    """Return the process for each task; ``tasks`` are in the order of their names."""
    if params.rows == "own":
        return {
            task.name: _fit_process([task], params, trace=trace, seed=seed, name=task.name)
            for task in tasks
        }
    rows = [source] if params.rows == "source" else tasks
    fitted = _fit_process(rows, params, trace=trace, seed=seed, name=params.rows)
    return dict.fromkeys([task.name for task in tasks], fitted)


def _fit_process(
    tasks: Sequence[Task], params: GPLVMParams, *, trace: Trace, seed: int, name: str
) -> _Fitted:
    """Return the process of the rows of some tasks, each centred by its own mean."""
    Y = np.concatenate([centred_rows(task)[0] for task in tasks])
    scale = row_scale(Y, task=tasks[0].name)
    rng = np.random.default_rng(seed)
    gp = fit_latent_gp(Y / scale, params, trace=trace, loop=f"rows '{name}'", rng=rng)
    return _Fitted(gp.predictor(params), scale, gp.value)


def _build_part(
    fitted: _Fitted,
    task: Task,
    params: GPLVMParams,
    *,
    mean: Array,
    labelled: Task | None,
    trace: Trace,
) -> LatentPart:
    return build_part(
        fitted.process,
        task,
        mean=mean,
        scale=fitted.scale,
        labelled=labelled,
        is_robust=params.projection == "robust",
        trace=trace,
    )


def _labelled(task: Task, source: Task, params: GPLVMParams) -> Task | None:
    """Return the task whose labels are used for a task; its own if it has its own latent space."""
    return labelled_task(task, task if params.rows == "own" else source)
