"""What TLVM is compared with: a latent variable model without transfer.

    min  (D r/2) ln 2π + (D/2) ln|K| + ½ tr(K⁻¹ Y_I Y_Iᵀ)   over latents X_I and θ

for the active rows Y_I of each task alone, of the source (whose model then serves all tasks), or
of all tasks pooled, each about its own mean. Cost: see :mod:`algorithms.latent.gp`.

Reference: Lawrence, *Probabilistic Non-linear Principal Component Analysis with Gaussian Process
Latent Variable Models*, JMLR 2005, https://jmlr.org/papers/v6/lawrence05a.html
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.latent.gp import centred_rows, fit_latent_gp, row_scale
from algorithms.latent.model import (
    LatentModel,
    late_warnings,
    rank_warnings,
)
from algorithms.latent.params import LatentParams
from algorithms.latent.parts import (
    LatentPart,
    build_part,
    labelled_task,
    n_projections,
)
from algorithms.latent.source import SourceParams, check_own_rows, choose_source
from algorithms.numerics.latent_projection import Predictor
from algorithms.numerics.threads import limit_blas_threads

Array = NDArray[np.float64]


class GPLVMParams(LatentParams, SourceParams):
    """Parameters of a latent variable model without transfer."""

    rows: Literal["own", "source", "pooled"] = Field(
        "own",
        title="Learned from",
        description="'own': each task has a model of its own rows. 'source': the model of the "
        "source task serves all. 'pooled': one model of the rows of all tasks.",
    )
    mean: Literal["own", "source"] = Field(
        "own",
        title="Mean",
        description="With which mean a model of other rows serves a task: its own, or that of "
        "the source, as if nothing were known of the task.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Learned:
    """A process, the scale of its rows, and how many latent dimensions the rows gave."""

    process: Predictor
    scale: float
    value: float


class GPLVM(Algorithm[GPLVMParams, LatentModel]):
    """A Gaussian-process latent variable model (GP-LVM)."""

    name = "gp-lvm"
    title = "Gaussian-process latent variable model"
    summary = (
        "A nonlinear latent space of each task alone, of the source for all, or of all rows "
        "pooled. The baselines of tlvm; with some hundred rows per task, all that is needed."
    )
    reference = "Lawrence (2005), https://jmlr.org/papers/v6/lawrence05a.html"
    needs = Needs(same_features=True)
    monotone = "down"
    Params = GPLVMParams
    Model = LatentModel

    def check(self, summaries: Sequence[TaskSummary], params: GPLVMParams) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit."""
        super().check(summaries, params)
        choose_source(summaries, params.source, algorithm=self.name)
        if params.rows == "own":
            check_own_rows(summaries, algorithm=self.name)

    def fit(
        self, tasks: TaskSet, params: GPLVMParams, *, trace: Trace, rng: np.random.Generator
    ) -> LatentModel:
        """Return the models of the chosen rows."""
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
            learned = _learn(ordered, source, params, trace=trace, seed=seed)
            parts = {
                task.name: _serve(
                    learned[task.name],
                    task,
                    params,
                    mean=(source if params.mean == "source" else task).X.mean(axis=0),
                    labelled=labelled[task.name],
                    trace=trace,
                )
                for task in ordered
            }
        got = [(name, one.process.active.shape[1]) for name, one in learned.items()]
        name, n_latents = min(got, key=lambda pair: pair[1])
        return LatentModel(
            algorithm=self.name,
            tasks=tasks.names,
            parts=tuple(parts[name] for name in tasks.names),
            source_rows=np.zeros((0, source.n_features)),
            fit_info={
                "params": params.model_dump(mode="json"),
                "source": source.name,
                "seed": seed,
                "by_task": {name: {"objective": one.value} for name, one in learned.items()},
            },
            warnings=(
                *rank_warnings(params.L, n_latents, task=name),
                *late_warnings(trace, max_iter=params.max_iter),
            ),
        )

    def adapt_task(self, model: LatentModel, task: Task, *, trace: Trace) -> LatentModel:
        """Return the model with one more task: of its own rows, or served as the others are."""
        params = GPLVMParams.model_validate(model.fit_info["params"])
        source = model.part_of(model.fit_info["source"])
        trace.expect_loops(1 + params.n_init * (params.rows == "own"))
        with limit_blas_threads(params.r):
            if params.rows == "own":
                self.check([task.summary()], params.model_copy(update={"source": ""}))
                learned = _learn([task], task, params, trace=trace, seed=model.fit_info["seed"])
                one = learned[task.name]
            else:
                one = _Learned(source.process, source.scale, 0.0)
            is_foreign = params.rows != "own" and params.mean == "source"
            part = _serve(
                one,
                task,
                params,
                mean=source.mean if is_foreign else task.X.mean(axis=0),
                labelled=task if task.target == "classes" else None,
                trace=trace,
            )
        return replace(
            model,
            tasks=(*model.tasks, task.name),
            parts=(*model.parts, part),
            warnings=(
                *model.warnings,
                *late_warnings(trace, max_iter=params.max_iter, task=task.name),
            ),
        )


def _learn(
    tasks: Sequence[Task], source: Task, params: GPLVMParams, *, trace: Trace, seed: int
) -> dict[str, _Learned]:
    """Return the process that serves each task; tasks in the order of their names."""
    if params.rows == "own":
        return {
            task.name: _of_rows([task], params, trace=trace, seed=seed, name=task.name)
            for task in tasks
        }
    rows = [source] if params.rows == "source" else tasks
    one = _of_rows(rows, params, trace=trace, seed=seed, name=params.rows)
    return dict.fromkeys([task.name for task in tasks], one)


def _of_rows(
    tasks: Sequence[Task], params: GPLVMParams, *, trace: Trace, seed: int, name: str
) -> _Learned:
    """Return the process of the rows of these tasks, each about its own mean."""
    Y = np.concatenate([centred_rows(task)[0] for task in tasks])
    scale = row_scale(Y, task=tasks[0].name)
    rng = np.random.default_rng(seed)
    gp = fit_latent_gp(Y / scale, params, trace=trace, loop=f"rows '{name}'", rng=rng)
    return _Learned(gp.predictor(params), scale, gp.value)


def _serve(
    learned: _Learned,
    task: Task,
    params: GPLVMParams,
    *,
    mean: Array,
    labelled: Task | None,
    trace: Trace,
) -> LatentPart:
    return build_part(
        learned.process,
        task,
        mean=mean,
        scale=learned.scale,
        labelled=labelled,
        is_robust=params.projection == "robust",
        trace=trace,
    )


def _labelled(task: Task, source: Task, params: GPLVMParams) -> Task | None:
    """Return the task whose labels serve a task; latent spaces of their own share none."""
    return labelled_task(task, task if params.rows == "own" else source)
