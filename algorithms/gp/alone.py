"""Gaussian processes of tasks that share hyperparameters and no function, and their alignment.

The weights α_t of each task alone say in which direction its function goes, and so whether tasks go
the same way (:mod:`algorithms.evaluation.choice.alignment`). Targets are centred in each task, and
a wide constant leaves their mean unknown. Nothing depends on the sign of the targets of a task.

There is no test of tasks that share their samples, such as several targets of the same rows: noise
that targets have in common would let 40 % of unrelated functions point the same way at p < .025.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from algorithms.evaluation.choice.alignment import (
    MAX_ROWS,
    MIN_ROWS_OF_TASK,
    Alignment,
    WeightedRows,
    align,
)
from algorithms.gp.algorithm import GP
from algorithms.gp.covariance import COMMON_CONSTANT, Parts, Rows, covariances
from algorithms.gp.data import Data
from algorithms.gp.evidence import INVERSE_LENGTH_RATES, Problem, ScaleMoments, estimate
from algorithms.gp.params import GPParams
from algorithms.interface.errors import Diverged, InvalidData
from algorithms.interface.target_scales import deviation
from algorithms.interface.tasks import TaskSet, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.units import units_of
from algorithms.interface.weights import weigh
from algorithms.numerics.arrays import Array

#: Sparse rows with more columns are not tested, since their dense copy takes long.
MAX_COLUMNS: Final = 2_500
#: Largest share of rows that tasks may have in common.
MAX_SHARED_ROWS: Final = 0.1
#: Variance of the constant of a task, in units of the variance of the centred targets.
WIDE: Final = 100.0


def alignment_of(tasks: TaskSet, rng: np.random.Generator, *, trace: Trace) -> Alignment | None:
    """Return the test whether the functions of tasks point the same way; None if it cannot be.

    Parameters
    ----------
    tasks
        Prepared tasks with the same columns, and targets.
    """
    params = GPParams()
    if len(tasks) < 2 or (tasks.is_sparse and tasks.tasks[0].n_features > MAX_COLUMNS):
        return None
    tasks = _few(weigh(tasks.by_name()), rng)
    tasks = TaskSet(tuple(task.dense() for task in tasks))
    try:
        GP().check(tasks.summaries(), params)
        check_magnitudes(tasks)
    except InvalidData:  # columns differ, or classes that no two tasks have
        return None
    if _shared_rows(tasks) > MAX_SHARED_ROWS:
        return None
    data = Data.of(tasks, max_lengths=params.max_lengths, rng=rng)
    Y = centred_targets(data)
    if not Y.any():
        return None
    rate = INVERSE_LENGTH_RATES["classes" if data.labels else "numbers"]
    problem = SeparateProblem(data.rows, Y, data.weights, rate, 1.0, np.zeros(0))
    try:
        z = estimate(
            problem,
            problem.start(),
            trace=trace,
            loop="tasks alone",
            max_iter=params.max_iter,
            tolerance=params.tolerance,
        )
        rows = problem.weighted_rows(z)
    except (Diverged, LinAlgError):  # a covariance without a factor, as of weights of 1e-12
        return None
    return align(rows, problem.common_covariance(z), rng)


def _shared_rows(tasks: TaskSet) -> float:
    """Return the share of rows whose unit has rows of several tasks."""
    units = units_of(tasks)
    by_task = [np.unique(unit) for unit in units.by_task()]
    n_tasks = np.bincount(np.concatenate(by_task), minlength=len(units.sizes))
    return float(np.mean(n_tasks[units.unit] > 1))


def _few(tasks: TaskSet, rng: np.random.Generator) -> TaskSet:
    """Return at most :data:`MAX_ROWS` random rows, as many of each task as possible."""
    n_tasks = min(len(tasks), MAX_ROWS // MIN_ROWS_OF_TASK)
    some = [tasks.tasks[t] for t in np.sort(rng.permutation(len(tasks))[:n_tasks])]
    sizes = np.array([task.n_samples for task in some])
    limits = np.arange(1, sizes.max() + 1)
    totals = np.minimum(sizes, limits[:, np.newaxis]).sum(axis=1)
    n = int(limits[totals <= MAX_ROWS][-1])
    return TaskSet(
        tuple(
            task if task.n_samples <= n else task.take(np.sort(rng.permutation(task.n_samples)[:n]))
            for task in some
        )
    )


def centred_targets(data: Data) -> Array:
    """Return targets (n, C) less the mean of their task, in units of their deviation.

    Deviations of tasks are drawn to a common one, by how much they differ. Classes have one unit.
    """
    Y = np.empty_like(data.Y)
    members = [np.flatnonzero(data.task == t) for t in range(data.n_tasks)]
    members = [rows for rows in members if len(rows)]
    for rows in members:
        Y[rows] = data.Y[rows] - np.average(data.Y[rows], axis=0, weights=data.weights[rows])
    Y /= deviation(list(Y.T), is_centered=False) or 1.0
    if not data.labels:
        moments = ScaleMoments.of([Y[rows, 0] for rows in members])
        for rows in members:
            Y[rows] *= np.exp(-moments.shrunken(Y[rows, 0]))
    return Y


@dataclass(frozen=True, eq=False)
class SeparateProblem(Problem):
    """Rows of tasks that share hyperparameters alone: their evidences multiply."""

    @cached_property
    def parts(self) -> Sequence[Problem]:
        """The problem of each task."""
        rows = self.rows
        members = [np.flatnonzero(rows.task == t) for t in np.unique(rows.task)]
        return [
            Problem(
                Rows(rows.X[of], np.zeros(len(of), dtype=np.intp), rows.group, rows.size),
                self.Y[of],
                self.weights[of],
                self.inverse_length_rate,
                self.log_scale_sd,
                self.first_log_scales,
            )
            for of in members
        ]

    def evidence(self, z: Array) -> tuple[float, Array]:
        """Return the negative logarithm of the product of evidences, and its gradient."""
        values, gradients = zip(*(part.evidence(z) for part in self.parts), strict=True)
        return sum(values), np.sum(gradients, axis=0)

    def weighted_rows(self, z: Array) -> list[WeightedRows]:
        """Return the rows of each task with their weights, given the hyperparameters z."""
        theta, _ = self.split(z)
        weighted = []
        for part in self.parts:
            K = Parts.of(part.rows, theta).matrix() + WIDE
            K.reshape(-1)[:: len(K) + 1] += theta.noise / part.weights
            root = np.asarray(cholesky(K, lower=True))
            weighted.append(WeightedRows(cho_solve((root, True), part.Y), root))
        return weighted

    def common_covariance(self, z: Array) -> Array:
        """Return the covariance that a function of a task has, between the rows of all tasks.

        A function that tasks share is expected to be like those of the tasks: as curved, and of
        the same columns. A fixed curve would drown the slopes of targets without curves, the more
        so the less noise they have. Constants are left out.
        """
        theta, _ = self.split(z)
        common, own = covariances(self.rows.X, self.rows.X, self.rows, theta)
        return common + own - (COMMON_CONSTANT + theta.own_constant)
