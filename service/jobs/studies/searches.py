"""A search as parts of a job: candidates are judged round after round, and the best is told."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from algorithms.evaluation.choices import held
from algorithms.evaluation.metrics import METRICS, deciding_metric, metrics_for
from algorithms.evaluation.paths import fit_all, groups
from algorithms.evaluation.requirements import check_splits, least_rows
from algorithms.evaluation.search import Search, best, candidates, ranked, rounds
from algorithms.evaluation.validation import (
    Fit,
    Scores,
    check_judged,
    joined,
    judge,
    mean_known,
    means,
)
from algorithms.interface.errors import InvalidParams
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from service.jobs.studies.child_jobs import Algo, Part, Plan

#: What the parts of a search are told by.
SEARCH: Final = "search"

Result = Mapping[str, Any]


def plan_search(
    algorithm: Algo,
    values: Mapping[str, Any],
    tasks: Sequence[TaskSummary],
    search: Search,
    *,
    seed: int,
) -> Plan:
    """Return what a job remembers of its search.

    Raises
    ------
    AlgorithmError
        There is nothing to try, or something does not fit the tasks.
    """
    metric = deciding_metric(metrics_for([algorithm], tasks), search)
    for name in sorted(search.space.keys() & values.keys()):
        raise InvalidParams(
            f"'{name}' is given in 'params' and tried in 'search'; leave it out of one of them",
            field=f"space/{name}",
        )
    tried = []
    for candidate in candidates(values, search, seed=seed):
        params = algorithm.parse(held(algorithm, candidate, search.space), place="space")
        algorithm.check(tasks, params)
        algorithm.check_held_out(params)
        tried.append(params)
    least = least_rows(algorithm, tried, tasks)
    check_splits(algorithm, tasks, search.splits(), least=least)
    return {
        "asked": search.model_dump(mode="json"),
        "metric": metric.name,
        "least": least,
        "tried": [params.model_dump(mode="json") for params in tried],
    }


def count_parts(algorithm: Algo, plan: Plan) -> int:
    """Return the number of parts in all rounds, at the most."""
    n_groups = len(groups(algorithm, plan["tried"]))
    steps = rounds(_asked(plan), len(plan["tried"]))
    return sum(min(n_groups, step.n_candidates) for step in steps)


def parts_of_round(algorithm: Algo, plan: Plan, results: Sequence[Result]) -> list[Part]:
    """Return the parts of the round after those that have come to some results; none at the end."""
    search, tried = _asked(plan), plan["tried"]
    steps = rounds(search, len(tried))
    n_done = 1 + max((part["plan"]["round"] for part in results), default=-1)
    if n_done == len(steps):
        return []
    left, begun = list(range(len(tried))), 0
    if n_done:
        left, begun = _ranked(plan, results), steps[n_done - 1].n_splits
    left = left[: steps[n_done].n_candidates]
    parts = []
    for group in groups(algorithm, [tried[which] for which in left]):
        chosen = [left[which] for which in group]
        inner = {
            "of": SEARCH,
            "round": n_done,
            "candidates": chosen,
            "tried": [tried[which] for which in chosen],
            "splits": search.splits().model_dump(mode="json"),
            "indices": list(range(begun, steps[n_done].n_splits)),
            "search": None,
            "least": plan.get("least", 1),
        }
        parts.append(Part(algorithm.name, tried[chosen[0]], inner))
    return parts


def conclude_search(
    plan: Plan, results: Sequence[Result], tasks: TaskSet
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the best parameters, and the report."""
    search, metric = _asked(plan), METRICS[plan["metric"]]
    scores = _scores(results)
    chosen = _ranked(plan, results)[0]
    check_judged(scores[chosen], tasks)
    report = {
        "method": search.method,
        "metric": metric.name,
        "larger_is_better": metric.larger_is_better,
        "average": search.average,
        "n_folds": search.n_folds,
        "repeats": search.repeats,
        "best": chosen,
        "candidates": [
            {
                "params": {name: plan["tried"][which][name] for name in search.space},
                "n_splits": len(scores[which]["over_rows"][metric.name]),
                **means(scores[which]),
                "by_task": {
                    task: mean_known(values)
                    for task, values in scores[which]["by_task"][metric.name].items()
                },
            }
            for which in sorted(scores)
        ],
    }
    return plan["tried"][chosen], report


def fit_searched(algorithm: Algo, values: Mapping[str, Any], search: Search, *, seed: int) -> Fit:
    """Return what makes a model of training rows with parameters searched inside them."""

    def fit(train: TaskSet, rng: np.random.Generator) -> Sequence[Model]:
        metrics = metrics_for([algorithm], train.tasks)
        tried = [
            held(algorithm, candidate, search.space)
            for candidate in candidates(values, search, seed=seed)
        ]
        least = least_rows(algorithm, [algorithm.parse(one) for one in tried], train.summaries())

        def judged(which: Sequence[int], indices: Sequence[int]) -> list[Scores]:
            return judge(
                fit_all(algorithm, [tried[i] for i in which]),
                train,
                search.splits(),
                indices,
                n_candidates=len(which),
                metrics=metrics,
                seed=seed,
                trace=Trace(),
                least=least,
            )

        chosen = best(search, len(tried), judged, deciding_metric(metrics, search))
        return [algorithm.fit(train, algorithm.parse(tried[chosen]), trace=Trace(), rng=rng)]

    return fit


def _asked(plan: Plan) -> Search:
    return Search.model_validate(plan["asked"])


def _ranked(plan: Plan, results: Sequence[Result]) -> list[int]:
    """Return the candidates of the last round, the best first."""
    last = max(part["plan"]["round"] for part in results)
    scores = _scores(results)
    left = {
        which: scores[which]
        for part in results
        if part["plan"]["round"] == last
        for which in part["plan"]["candidates"]
    }
    return ranked(left, METRICS[plan["metric"]], _asked(plan).average)


def _scores(results: Sequence[Result]) -> dict[int, Scores]:
    """Return what each candidate came to in all its rounds."""
    pieces: dict[int, list[Scores]] = {}
    for part in results:
        for which, scores in zip(part["plan"]["candidates"], part["scores"], strict=True):
            pieces.setdefault(which, []).append(scores)
    return {which: joined(found) for which, found in pieces.items()}
