"""Expected time of jobs: the time of all their fits, corrected by the times of earlier jobs.

The expected work of a fit (:mod:`algorithms.interface.work`) is in seconds at reference speeds. The
machines of a service are faster or slower by a factor, which is the median over its last jobs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.durations import describe_duration
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import WorkEstimate
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.calibration.options import Calibration
from service.jobs.studies.fits import fits_of_study
from service.jobs.studies.plans import Study
from service.storage.job_states import JobState
from service.storage.tables import JobRow

#: Last jobs from which the correction is learned, and the least number of them.
MAX_JOBS: Final = 50
MIN_JOBS: Final = 5
#: Rows that are read to find them, by an index of the jobs with a time at reference speeds.
_MAX_ROWS: Final = 200
#: Shorter jobs take most of their time to start, and say nothing about the speed of the machine.
MIN_RUN_S: Final = 1.0
MIN_REFERENCE_S: Final = 0.5
#: Bounds of the correction.
_MIN_FACTOR, _MAX_FACTOR = 0.05, 20.0
#: Suggested limits are longer than the expected time by this factor.
MARGIN: Final = 3.0


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """Expected time of a job.

    Parameters
    ----------
    expected_s
        From the start to the end, with as many fits at a time as the service runs.
    reference_s
        Seconds of the fit at reference speeds, from which later estimates are corrected; None for a
        job of several attempts, whose time depends on other jobs, and for a short one.
    longest
        Work of the attempt that takes longest.
    factor
        Correction of the times at reference speeds.
    """

    expected_s: float
    reference_s: float | None
    longest: WorkEstimate
    factor: float

    def describe(self) -> str:
        """Return a phrase such as "about 3 h"."""
        return f"about {describe_duration(self.expected_s)}"

    def warnings(self, algorithm: str, *, timeout_s: float) -> list[str]:
        """Return a warning if an attempt is expected to take longer than its limit.

        The estimate can be wrong, so the job is not refused.
        """
        longest_s = self.factor * self.longest.seconds
        if longest_s <= timeout_s:
            return []
        need = self.longest.describe(factor=self.factor)
        warning = (
            f"{algorithm} is expected to take {need}, and 'timeout_s' = {timeout_s:g} allows "
            f"{describe_duration(timeout_s)}; if the job times out, {self.longest.remedy}, or set "
            f"'timeout_s' to {math.ceil(MARGIN * longest_s)}"
        )
        return [warning]


def estimate_time(
    session: Session,
    algorithm: Algorithm[Any, Any],
    tasks: Sequence[TaskSummary],
    params: Any,
    *,
    calibration: Calibration | None,
    study: Study | None,
    n_slots: int | None,
) -> TimeEstimate:
    """Return the expected time of a job.

    Parameters
    ----------
    tasks, params
        Tasks and parameters of the final fit.
    study
        The plan and first child jobs of a job of several fits.
    n_slots
        Number of fits that can run at the same time; None if it is unknown.
    """
    factor = correction(session)
    final = calibrated(algorithm, calibration).work(tasks, params)
    if study is None:
        # a race ends at its budget, on fast and slow machines
        is_known = final.seconds >= MIN_REFERENCE_S and not algorithm.is_combined
        reference_s = final.seconds if is_known else None
        return TimeEstimate(factor * final.seconds, reference_s, final, factor)
    fits = fits_of_study(study, tasks, calibration)
    works = [fit.work for fit in fits]
    longest = max([final, *works], key=lambda work: work.seconds)
    n_children = sum(fit.n_jobs for fit in fits)
    at_once = min(n_slots or 1, max(math.floor(n_children), 1))
    in_children_s = sum(fit.work.seconds * fit.n_jobs for fit in fits) / at_once
    return TimeEstimate(factor * (in_children_s + final.seconds), None, longest, factor)


def correction(session: Session) -> float:
    """Return the median ratio of run time to expected time at reference speeds; 1 if unknown.

    It covers the last training jobs of one fit that succeeded in their first attempt.
    """
    query = (
        sa.select(JobRow.reference_s, JobRow.started_at, JobRow.finished_at)
        .where(
            JobRow.state == JobState.SUCCEEDED,
            JobRow.attempt == 1,
            JobRow.reference_s >= MIN_REFERENCE_S,
        )
        .order_by(JobRow.id.desc())
        .limit(_MAX_ROWS)
    )
    ratios = []
    for reference_s, started_at, finished_at in session.execute(query):
        if reference_s is None or started_at is None or finished_at is None:
            continue
        run_s = (finished_at - started_at).total_seconds()
        if run_s >= MIN_RUN_S:
            ratios.append(run_s / reference_s)
    if len(ratios) < MIN_JOBS:
        return 1.0
    return min(max(median(ratios[:MAX_JOBS]), _MIN_FACTOR), _MAX_FACTOR)
