"""Parameter searches: child jobs score the candidates in rounds, and the best candidate wins."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from algorithms.evaluation.scores.metrics import METRICS, deciding_metric, metrics_for
from algorithms.evaluation.selection.choices import with_fixed_values
from algorithms.evaluation.selection.failures import all_failed, failure_warnings
from algorithms.evaluation.selection.paths import fit_candidates, group_by_path
from algorithms.evaluation.selection.search import (
    Range,
    SearchOptions,
    list_candidates,
    plan_rounds,
    rank_candidates,
    select_best,
)
from algorithms.evaluation.selection.validation import (
    Fit,
    Scores,
    check_has_scores,
    concatenate_scores,
    mean_known,
    mean_score,
    mean_scores,
    score_splits,
    without_small_ratios,
)
from algorithms.interface.errors import InvalidParams
from algorithms.interface.model import Model
from algorithms.interface.params import GridLosses, search_end_warnings
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.splits.requirements import Algo, check_splits, min_train_rows
from service.jobs.studies.child_jobs import ChildJob, Plan

#: Marks the child jobs of a search.
SEARCH: Final = "search"

Result = Mapping[str, Any]


def plan_search(
    algorithm: Algo,
    values: Mapping[str, Any],
    tasks: Sequence[TaskSummary],
    search: SearchOptions,
    *,
    seed: int,
) -> Plan:
    """Return the plan of a search.

    Parameters
    ----------
    values
        Fixed parameters; the search space has the others.

    Raises
    ------
    AlgorithmError
        The search space is empty, or a candidate cannot be used with the tasks.
    """
    metric, reason = deciding_metric(metrics_for([algorithm], tasks), search, tasks)
    metric.check_sizes(tasks, search.average)
    for name in sorted(search.space.keys() & values.keys()):
        raise InvalidParams(
            f"'{name}' is in both 'params' and the search space; remove it from one of them",
            field=f"space/{name}",
        )
    param_sets = []
    for candidate in list_candidates(values, search, seed=seed):
        params = algorithm.parse(
            with_fixed_values(algorithm, candidate, search.space), place="space"
        )
        algorithm.check(tasks, params)
        algorithm.check_held_out(params)
        param_sets.append(params)
    min_rows = min_train_rows(algorithm, param_sets, tasks)
    check_splits(algorithm, param_sets[0], tasks, search.splits(), min_rows=min_rows)
    return {
        "options": search.model_dump(mode="json"),
        "metric": metric.name,
        "metric_reason": reason,
        "min_rows": min_rows,
        "param_sets": [params.model_dump(mode="json") for params in param_sets],
    }


def count_child_jobs(algorithm: Algo, plan: Plan) -> int:
    """Return the largest possible number of child jobs in all rounds."""
    n_groups = len(group_by_path(algorithm, plan["param_sets"]))
    steps = plan_rounds(_options(plan), len(plan["param_sets"]))
    return sum(min(n_groups, step.n_candidates) for step in steps)


def child_jobs_of_round(algorithm: Algo, plan: Plan, results: Sequence[Result]) -> list[ChildJob]:
    """Return the child jobs of the round after those with results; none after the last round."""
    search, param_sets = _options(plan), plan["param_sets"]
    steps = plan_rounds(search, len(param_sets))
    n_done = 1 + max((result["plan"]["round"] for result in results), default=-1)
    if n_done == len(steps):
        return []
    left, first_split = list(range(len(param_sets))), 0
    if n_done:
        left, first_split = _ranked(plan, results), steps[n_done - 1].n_splits
    # none is left if all candidates of the round failed
    left = left[: steps[n_done].n_candidates]
    children = []
    for group in group_by_path(algorithm, [param_sets[which] for which in left]):
        chosen = [left[which] for which in group]
        inner = {
            "of": SEARCH,
            "round": n_done,
            "candidates": chosen,
            "param_sets": [param_sets[which] for which in chosen],
            "splits": search.splits().model_dump(mode="json"),
            "indices": list(range(first_split, steps[n_done].n_splits)),
            "search": None,
            "min_rows": plan.get("min_rows", 1),
        }
        children.append(ChildJob(algorithm.name, param_sets[chosen[0]], inner))
    return children


def report_search(
    algorithm: Algo, plan: Plan, results: Sequence[Result], tasks: TaskSet
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the best parameters, and the report of the search.

    Parameters
    ----------
    results
        Results of the child jobs of the search, in order.

    Raises
    ------
    InvalidData
        No split holds out a row.
    Diverged
        All candidates failed.
    """
    search, metric = _options(plan), METRICS[plan["metric"]]
    scores = _scores(plan, results)
    failed = _failed(plan, scores)
    ranked = _ranked(plan, results) or rank_candidates(scores, metric, search.average)
    if not ranked:
        raise all_failed(failed)
    chosen = ranked[0]
    check_has_scores(scores[chosen], tasks)
    report = {
        "method": search.method,
        "metric": metric.name,
        "metric_reason": plan.get("metric_reason"),
        "unit": plan.get("unit"),
        "larger_is_better": metric.larger_is_better,
        "average": search.average,
        "few_rows": scores[chosen].get("few_rows", []),
        "n_folds": search.n_folds,
        "repeats": search.repeats,
        "best": chosen,
        "candidates": [
            {
                "params": _searched(plan, which),
                "n_splits": len(scores[which]["over_rows"][metric.name]),
                **mean_scores(scores[which]),
                "by_task": {
                    task: mean_known(values)
                    for task, values in scores[which]["by_task"][metric.name].items()
                },
                "failed": scores[which].get("failed"),
            }
            for which in sorted(scores)
        ],
        "warnings": [*_end_warnings(algorithm, plan, chosen, scores), *failure_warnings(failed)],
    }
    return plan["param_sets"][chosen], report


def fit_with_search(
    algorithm: Algo, values: Mapping[str, Any], search: SearchOptions, *, seed: int
) -> Fit:
    """Return a function that searches parameters within training rows and fits with the best.

    Parameters
    ----------
    values
        Fixed parameters; the search space has the others.
    """

    def fit(train: TaskSet, rng: np.random.Generator) -> Sequence[Model]:
        metrics = metrics_for([algorithm], train.tasks)
        param_sets = [
            with_fixed_values(algorithm, candidate, search.space)
            for candidate in list_candidates(values, search, seed=seed)
        ]
        parsed = [algorithm.parse(params) for params in param_sets]
        min_rows = min_train_rows(algorithm, parsed, train.summaries())

        def score(which: Sequence[int], indices: Sequence[int]) -> list[Scores]:
            return score_splits(
                fit_candidates(algorithm, [param_sets[i] for i in which]),
                train,
                search.splits(),
                indices,
                n_candidates=len(which),
                metrics=metrics,
                seed=seed,
                trace=Trace(),
                min_rows=min_rows,
            )

        metric, _ = deciding_metric(metrics, search, train.summaries())
        chosen = select_best(search, len(param_sets), score, metric)
        return [algorithm.fit(train, algorithm.parse(param_sets[chosen]), trace=Trace(), rng=rng)]

    return fit


def _options(plan: Plan) -> SearchOptions:
    return SearchOptions.model_validate(plan["options"])


def _ranked(plan: Plan, results: Sequence[Result]) -> list[int]:
    """Return the candidates of the last round that did not fail, best first."""
    last = max(result["plan"]["round"] for result in results)
    scores = _scores(plan, results)
    left = {
        which: scores[which]
        for result in results
        if result["plan"]["round"] == last
        for which in result["plan"]["candidates"]
    }
    return rank_candidates(left, METRICS[plan["metric"]], _options(plan).average)


def _failed(plan: Plan, scores: Mapping[int, Scores]) -> list[dict[str, Any]]:
    """Return the searched parameters of each failed candidate, and the reason."""
    return [
        {"params": _searched(plan, which), "reason": scores[which]["failed"]}
        for which in sorted(scores)
        if "failed" in scores[which]
    ]


def _end_warnings(
    algorithm: Algo, plan: Plan, chosen: int, scores: Mapping[int, Scores]
) -> tuple[str, ...]:
    """Return a warning for each number that was chosen at an end of the values that were tried."""
    tried: dict[str, list[float]] = {}
    for name, values in _options(plan).space.items():
        ends = [values.low, values.high] if isinstance(values, Range) else []
        numbers = [*ends, *(params[name] for params in plan["param_sets"])]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers):
            tried[name] = numbers
    values = plan["param_sets"][chosen]
    params = algorithm.parse(values)
    losses = _losses_by_value(plan, scores, tried) if _options(plan).method == "grid" else {}
    return search_end_warnings(params, tried, {name: values[name] for name in tried}, losses)


def _losses_by_value(plan: Plan, scores: Mapping[int, Scores], names: Iterable[str]) -> GridLosses:
    """Return the loss of the best candidate with each value of each parameter."""
    metric, average = METRICS[plan["metric"]], _options(plan).average
    sign = -1.0 if metric.larger_is_better else 1.0
    best: dict[str, dict[float, float]] = {name: {} for name in names}
    for which, of_candidate in scores.items():
        mean = mean_score(of_candidate, metric.name, average)
        loss = np.inf if mean is None or "failed" in of_candidate else sign * mean
        for name, of_value in best.items():
            value = plan["param_sets"][which][name]
            of_value[value] = min(loss, of_value.get(value, loss))
    return best


def _searched(plan: Plan, which: int) -> dict[str, Any]:
    """Return the searched parameters of a candidate."""
    return {name: plan["param_sets"][which][name] for name in _options(plan).space}


def _scores(plan: Plan, results: Sequence[Result]) -> dict[int, Scores]:
    """Return the scores of each candidate over all its rounds."""
    pieces: dict[int, list[Scores]] = {}
    for result in results:
        for which, scores in zip(result["plan"]["candidates"], result["scores"], strict=True):
            pieces.setdefault(which, []).append(scores)
    splits = _options(plan).splits()
    scores = {which: concatenate_scores(rounds) for which, rounds in pieces.items()}
    for which, of_candidate in scores.items():
        if len(next(iter(of_candidate["over_rows"].values()))) == splits.count():
            scores[which] = concatenate_scores(without_small_ratios([of_candidate], splits))
    return scores
