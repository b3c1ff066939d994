"""Expected work of the child jobs of searches, comparisons and evaluations."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Final

from algorithms.evaluation.selection.choices import with_fixed_values
from algorithms.evaluation.selection.search import SearchOptions, list_candidates, plan_rounds
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import WorkEstimate, with_share
from algorithms.registry import ALGORITHMS
from algorithms.splits.requirements import Algo
from algorithms.splits.splits import Splits
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.calibration.options import Calibration
from service.jobs.studies.child_jobs import ChildJob
from service.jobs.studies.comparisons import EVALUATION
from service.jobs.studies.plans import Study
from service.jobs.studies.searches import SEARCH

#: Candidates of a search whose work is estimated, which takes time for many tasks.
MAX_ESTIMATED: Final = 16


@dataclass(frozen=True, slots=True)
class ChildWork:
    """Expected work of a child job, and the number of such jobs, which need not be whole."""

    work: WorkEstimate
    n_jobs: float = 1.0


def fits_of_study(
    study: Study, tasks: Sequence[TaskSummary], calibration: Calibration | None
) -> list[ChildWork]:
    """Return the work of all child jobs, including the later rounds of a search.

    Parameters
    ----------
    calibration
        Calibration of the model, which applies to the fits of an evaluation too.
    """
    works = _Works(tasks, calibration)
    works_of_children = [ChildWork(works.of(child)) for child in study.child_jobs]
    if SEARCH in study.plan:
        first = [works.of(child) for child in study.child_jobs if child.plan["of"] == SEARCH]
        n_first, n_later = _count_fits(study.plan[SEARCH])
        if first and n_later:
            # on average, candidates of later rounds take as long as candidates of the first
            mean = reduce(add, first).times(1 / len(first))
            works_of_children.append(ChildWork(mean, len(first) * n_later / n_first))
    return works_of_children


def _count_fits(plan: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of fits in the first round of a search, and in all later ones."""
    rounds = plan_rounds(SearchOptions.model_validate(plan["options"]), len(plan["param_sets"]))
    n_done, counts = 0, []
    for round_ in rounds:
        counts.append(round_.n_candidates * (round_.n_splits - n_done))
        n_done = round_.n_splits
    return counts[0], sum(counts[1:])


class _Works:
    """Work of child jobs. Most child jobs of a method differ only in their splits."""

    def __init__(self, tasks: Sequence[TaskSummary], calibration: Calibration | None) -> None:
        self._tasks, self._calibration = tasks, calibration
        self._rows: dict[float, tuple[TaskSummary, ...]] = {1.0: tuple(tasks)}
        self._known: dict[str, WorkEstimate] = {}

    def of(self, child: ChildJob) -> WorkEstimate:
        """Return the work of the candidates, fitted to the training rows of the splits."""
        plan = child.plan
        algorithm: Algo = ALGORITHMS[child.algorithm]
        if plan["of"] == EVALUATION:
            algorithm = calibrated(algorithm, self._calibration)
        share = _share(Splits.model_validate(plan["splits"], strict=False), self._tasks)
        all_ = _sum(
            plan["param_sets"], lambda values: self._with_search(algorithm, values, share, plan)
        )
        return all_.times(len(plan["indices"]))

    def _with_search(
        self, algorithm: Algo, values: Mapping[str, Any], share: float, plan: Mapping[str, Any]
    ) -> WorkEstimate:
        """Return the work of a fit, after a search within the training rows if there is one."""
        if plan["search"] is None:
            return self._fit(algorithm, values, share)
        search = SearchOptions.model_validate(plan["search"])
        splits = search.splits()
        candidates = [
            with_fixed_values(algorithm, candidate, search.space)
            for candidate in list_candidates(values, search, seed=0)
        ]
        inner = share * _share(splits, self._tasks)
        all_ = _sum(candidates, lambda candidate: self._fit(algorithm, candidate, inner))
        return all_.times(splits.count()) + self._fit(algorithm, candidates[0], share)

    def _fit(self, algorithm: Algo, values: Mapping[str, Any], share: float) -> WorkEstimate:
        key = f"{type(algorithm).__name__} {algorithm.name} {share} {sorted(values.items())!r}"
        if key not in self._known:
            if share not in self._rows:
                self._rows[share] = with_share(self._tasks, share)
            self._known[key] = algorithm.work(self._rows[share], algorithm.parse(values))
        return self._known[key]


def _sum(
    candidates: Sequence[Mapping[str, Any]], work_of: Callable[[Mapping[str, Any]], WorkEstimate]
) -> WorkEstimate:
    """Return the work of all candidates, as estimated from some of them if they are many."""
    some = candidates[:: math.ceil(len(candidates) / MAX_ESTIMATED)]
    return reduce(add, map(work_of, some)).times(len(candidates) / len(some))


def _share(splits: Splits, tasks: Sequence[TaskSummary]) -> float:
    """Return the share of training rows."""
    return 1 / (1 + splits.ratio(tasks))
