"""Expected work of the child jobs of searches, comparisons and evaluations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from algorithms.calibration.algorithm import calibrated
from algorithms.calibration.options import Calibration
from algorithms.evaluation.choices import with_fixed_values
from algorithms.evaluation.contenders import Algo
from algorithms.evaluation.search import SearchOptions, list_candidates, plan_rounds
from algorithms.evaluation.splits import Splits
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import WorkEstimate, with_share
from algorithms.registry import ALGORITHMS
from service.jobs.studies.child_jobs import ChildJob
from service.jobs.studies.comparisons import EVALUATION
from service.jobs.studies.plans import Study
from service.jobs.studies.searches import SEARCH


@dataclass(frozen=True, slots=True)
class ChildWork:
    """Expected work of a child job, and the number of such jobs, which need not be whole."""

    work: WorkEstimate
    n_jobs: float = 1.0


def fits_of_study(
    study: Study, tasks: Sequence[TaskSummary], calibration: Calibration | None
) -> list[ChildWork]:
    """Return the work of all child jobs, with those of the later rounds of a search.

    Parameters
    ----------
    calibration
        Also that of the fits of an evaluation.
    """
    found = [ChildWork(_work_of(child, tasks, calibration)) for child in study.child_jobs]
    if SEARCH in study.plan:
        first = [
            _work_of(child, tasks, None) for child in study.child_jobs if child.plan["of"] == SEARCH
        ]
        n_first, n_later = _count_fits(study.plan[SEARCH])
        if first and n_later:
            all_first = reduce(add, first)
            # candidates of later rounds take as long as those of the first, on the mean
            found.append(ChildWork(all_first.times(1 / len(first)), len(first) * n_later / n_first))
    return found


def _count_fits(plan: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of fits in the first round of a search, and in all later ones."""
    rounds = plan_rounds(SearchOptions.model_validate(plan["options"]), len(plan["param_sets"]))
    n_done, counts = 0, []
    for one in rounds:
        counts.append(one.n_candidates * (one.n_splits - n_done))
        n_done = one.n_splits
    return counts[0], sum(counts[1:])


def _work_of(
    child: ChildJob, tasks: Sequence[TaskSummary], calibration: Calibration | None
) -> WorkEstimate:
    """Return the work of a child job: its candidates, fitted to the training rows of its splits."""
    plan = child.plan
    algorithm: Algo = ALGORITHMS[child.algorithm]
    if plan["of"] == EVALUATION:
        algorithm = calibrated(algorithm, calibration)
    train = _training_rows(tasks, Splits.model_validate(plan["splits"], strict=False))
    works = [_work_of_values(algorithm, values, train, plan) for values in plan["param_sets"]]
    return reduce(add, works).times(len(plan["indices"]))


def _work_of_values(
    algorithm: Algo,
    values: Mapping[str, Any],
    train: Sequence[TaskSummary],
    plan: Mapping[str, Any],
) -> WorkEstimate:
    """Return the work of a fit, after a search within the training rows if there is one."""
    if plan["search"] is None:
        return algorithm.work(train, algorithm.parse(values))
    search = SearchOptions.model_validate(plan["search"])
    inner = _training_rows(train, search.splits())
    candidates = [
        algorithm.parse(with_fixed_values(algorithm, one, search.space))
        for one in list_candidates(values, search, seed=0)
    ]
    n_splits = search.splits().count()
    selection = reduce(add, [algorithm.work(inner, one) for one in candidates]).times(n_splits)
    return selection + algorithm.work(train, candidates[0])


def _training_rows(tasks: Sequence[TaskSummary], splits: Splits) -> tuple[TaskSummary, ...]:
    """Return the summaries of the training rows of a split."""
    return with_share(tasks, 1 / (1 + splits.ratio(tasks)))
