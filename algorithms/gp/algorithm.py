"""Multi-task Gaussian process: one function that the tasks share, and one of each task.

How a fit runs: targets get their units, or the units of their logarithms (:mod:`.data`); variances
and length scales maximise the penalised evidence of at most 1,000 rows (:mod:`.evidence`, with the
covariance of :mod:`.covariance`); then the functions follow from all rows (:mod:`.posterior`).

The model contains ridge regression of all rows, of each task, mean-regularised regression and the
mixed model as special cases, with curves besides. How far tasks share is learned by the evidence,
without folds. Classes are learned as −1 and 1 (label regression), several classes with one set of
hyperparameters.

Cost: O(n³) per step for up to 1,000 rows; with more, Σ n_t³/3 + n m² once, m up to 200 features.

References: Bonilla, Chai, Williams, *Multi-task Gaussian process prediction*, NIPS 2008; Álvarez,
Rosasco, Lawrence, *Kernels for vector-valued functions*, 2012, doi:10.1561/2200000036; Rasmussen,
Williams, *Gaussian processes for machine learning*, 2006
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from algorithms.gp.data import Data, check_new_targets, labels_of, targets_of
from algorithms.gp.evidence import estimate, shares_of_variance
from algorithms.gp.model import GPModel
from algorithms.gp.params import GPParams
from algorithms.gp.posterior import MAX_INDUCING, Layout
from algorithms.gp.student import first_weights, student_weights
from algorithms.interface.algorithm import Algorithm, Baseline
from algorithms.interface.errors import InvalidData
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.weights import weights_of
from algorithms.interface.work import (
    VALUE_BYTES,
    MemoryEstimate,
    WorkEstimate,
    estimate_passes,
    rows_bytes,
)
from algorithms.numerics.arrays import Array

#: Rows whose evidence decides on logarithms.
DECIDING_ROWS: Final = 300
#: By how much the evidence of logarithms must be better, at least, and for each row.
CLEARLY_BETTER: Final = (10.0, 0.05)
#: Rounds of the weights of Student's noise.
STUDENT_ROUNDS: Final = 6
#: Evaluations of the evidence, as counted in benchmarks; operations of each for n³ and for n².
N_EVALUATIONS: Final = 70.0
CUBIC_FLOPS: Final = 1.5
SQUARE_VALUES: Final = 12.0
STEPS: Final = 60.0
#: Matrices (n, n) at the peak of an evaluation.
N_MATRICES: Final = 9


class GP(Algorithm[GPParams, GPModel]):
    """A Gaussian process with a common part and a part of each task."""

    name = "gp"
    title = "Multi-task Gaussian process"
    summary = (
        "Learns a smooth function that the tasks share and what each task adds, with slopes and "
        "curves, and how far they share, by marginal likelihood. For up to some thousand rows and "
        "few columns; numbers or classes."
    )
    reference = (
        "Bonilla, Chai and Williams (2008), "
        "https://papers.nips.cc/paper/2007/hash/66368270ffd51418ec58bd793f2d9b1b-Abstract.html"
    )
    needs = Needs(same_features=True, target="any", weights=True)
    baselines = (
        Baseline("ridge", "single_task", values={"form": "task"}),
        Baseline("ridge", "pooled", values={"form": "pooled"}),
        Baseline("mean-regularised", "multi_task"),
    )
    monotone = "down"
    Params = GPParams
    Model = GPModel

    def check(self, summaries: Sequence[TaskSummary], params: GPParams) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        super().check(summaries, params)
        if summaries[0].target == "classes":
            if all(one.classes is not None for one in summaries):
                labels_of(summaries)
        elif sum(one.n_samples for one in summaries) < 2:
            raise InvalidData("gp needs at least two rows in total, got 1")

    def memory(self, summaries: Sequence[TaskSummary], params: GPParams) -> MemoryEstimate:
        """Return the memory of the covariances of the evidence, and of the tasks' rows."""
        n = sum(one.n_samples for one in summaries)
        largest = max(one.n_samples for one in summaries)
        exact = min(n, params.evidence_rows)
        blocks = 0.0 if n == exact else 4 * largest**2 + 3 * n * (MAX_INDUCING + 20)
        return MemoryEstimate(
            4 * rows_bytes(summaries) + VALUE_BYTES * max(N_MATRICES * exact**2, blocks),
            f"the covariances of {exact:,} rows",
            "use fewer evidence_rows, or smaller tasks",
        )

    def work(self, summaries: Sequence[TaskSummary], params: GPParams) -> WorkEstimate:
        """Return the work of the steps of the evidence, and of the solution with all rows."""
        n = sum(one.n_samples for one in summaries)
        exact = min(n, params.evidence_rows)
        n_fits = 1 + (params.noise == "student") * STUDENT_ROUNDS
        evaluations = min(N_EVALUATIONS, params.max_iter) * n_fits
        final = sum(float(one.n_samples) ** 3 for one in summaries) / 3 if n > exact else 0.0
        evidence = WorkEstimate(
            f"{evaluations:g} evaluations of the evidence of {exact:,} rows",
            "use fewer evidence_rows",
            flops=evaluations * CUBIC_FLOPS * float(exact) ** 3 + final + n * MAX_INDUCING**2,
            values=evaluations * SQUARE_VALUES * float(exact) ** 2,
            steps=evaluations * STEPS,
        )
        return estimate_passes(summaries) + evidence

    def fit(
        self, tasks: TaskSet, params: GPParams, *, trace: Trace, rng: np.random.Generator
    ) -> GPModel:
        """Return the functions of all tasks, with the hyperparameters of largest evidence."""
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        data = Data.of(tasks.by_name(), max_lengths=params.max_lengths, rng=rng)
        data = self._with_suitable_units(data, params, trace)
        if params.noise == "normal":
            z = _estimate(data, None, params, trace, loop="evidence")
            return self._model(data, z, params, tasks, trace)
        given = data.weights
        data = replace(data, weights=given * first_weights(data))
        z = _estimate(data, None, params, trace, loop="evidence")
        for i in range(STUDENT_ROUNDS):
            theta, log_scales = data.problem().split(z)
            layout = Layout.of(data.rows, theta, max_exact=params.evidence_rows)
            data = replace(data, weights=given * student_weights(data, layout, log_scales))
            z = _estimate(data, z, params, trace, loop=f"noise {i + 1}")
        return self._model(data, z, params, tasks, trace)

    def refit(
        self,
        model: GPModel,
        tasks: TaskSet,
        params: GPParams,
        *,
        trace: Trace,
        rng: np.random.Generator,
    ) -> GPModel:
        """Return the functions of other rows of a model's tasks, by few steps from its fit."""
        data = Data.of(tasks.by_name(), max_lengths=params.max_lengths, rng=rng)
        data = data.with_units(has_logarithms=model.units.has_logarithms)
        scales = dict(zip(model.tasks, np.log(model.scales), strict=True))
        known = [] if data.labels else [scales[name] for name in sorted(scales)]
        start = np.concatenate([model.logarithms, known])
        z = _estimate(data, start, params, trace, loop="evidence")
        return self._model(data, z, params, tasks, trace)

    def _with_suitable_units(self, data: Data, params: GPParams, trace: Trace) -> Data:
        """Return the data with logarithms of the targets, if their evidence is clearly better.

        It includes the Jacobian −Σ log y. Few rows decide; their hyperparameters are no start for
        all rows, since parts that they switch off have no gradient.
        """
        if data.labels or params.logarithms == "never" or not (data.Y > 0).all():
            if params.logarithms == "always":
                raise InvalidData("gp learns logarithms only of numeric targets above 0")
            return data
        logarithms = data.with_units(has_logarithms=True)
        if params.logarithms == "always":
            return logarithms
        losses = []
        for candidate, loop in ((data, "targets"), (logarithms, "logarithms")):
            few = candidate.balanced(DECIDING_ROWS)
            z = _estimate(few, None, params, trace, loop=loop)
            loss = few.problem().negative_log_evidence(z) + len(few.Y) * math.log(few.units.unit)
            losses.append(loss + float(np.log(few.Y).sum()) * few.units.has_logarithms)
        margin = max(CLEARLY_BETTER[0], CLEARLY_BETTER[1] * len(few.Y))
        return logarithms if losses[1] < losses[0] - margin else data

    def _model(
        self, data: Data, z: Array, params: GPParams, tasks: TaskSet, trace: Trace
    ) -> GPModel:
        """Return the model of the hyperparameters z, its tasks in the order of ``tasks``."""
        evidence = data.balanced(params.evidence_rows)
        theta, log_scales = evidence.problem().split(z)
        scales = np.exp(log_scales) if len(log_scales) else np.ones(len(tasks))
        by_name = {name: t for t, name in enumerate(tasks.by_name().names)}
        source = np.array([by_name[name] for name in tasks.names])
        task = np.argsort(source)[data.task]
        order = np.argsort(task, kind="stable")
        model = GPModel(
            self.name,
            tasks.names,
            data.labels,
            data.units,
            data.X[order],
            task[order],
            data.group,
            z[: len(z) - len(log_scales)],
            scales[source],
            data.targets[order] / scales[data.task[order], np.newaxis],
            data.weights[order],
            params.evidence_rows,
            fit_info={
                "params": params.model_dump(mode="json"),
                "logarithms": data.units.has_logarithms,
                "shares_of_variance": shares_of_variance(evidence.rows, theta),
                "evidence_rows": len(evidence.X),
                "length_scales": theta.lengths.tolist(),
            },
            warnings=_warnings(params, trace),
        )
        return model.with_stage()

    def has_common_part(self, params: GPParams) -> bool:
        """Return True: a task without rows has the common part, and the variance of its own."""
        del params
        return True

    def adapt_task(self, model: GPModel, task: Task, *, trace: Trace) -> GPModel:
        """Return the model with the rows of a new task, and the hyperparameters it has."""
        del trace
        units = model.units
        check_new_targets(task, model.labels, has_logarithms=units.has_logarithms)
        Y = units.convert(targets_of(task, model.labels))
        scale = math.exp(units.log_scale(Y))
        return replace(
            model,
            tasks=(*model.tasks, task.name),
            X=np.concatenate([model.X, units.standardise(task.X)]),
            task=np.concatenate([model.task, np.full(len(Y), len(model.tasks))]),
            scales=np.append(model.scales, scale),
            targets=np.concatenate([model.targets, Y / scale]),
            weights=np.concatenate([model.weights, weights_of(task)]),
        ).with_stage()


def _estimate(
    data: Data, start: Array | None, params: GPParams, trace: Trace, *, loop: str
) -> Array:
    """Return the hyperparameters, and scales of tasks, of the largest evidence of some rows."""
    problem = data.balanced(params.evidence_rows).problem()
    z = problem.start() if start is None else start
    return estimate(
        problem, z, trace=trace, loop=loop, max_iter=params.max_iter, tolerance=params.tolerance
    )


def _warnings(params: GPParams, trace: Trace) -> tuple[str, ...]:
    if trace.stop_reasons["evidence"] != "max_iter":
        return ()
    text = f"the evidence was still rising after {params.max_iter} steps"
    return (f"{text}; increase max_iter, or raise the tolerance",)
