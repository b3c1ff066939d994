"""What a job does beside one fit: parts that are judged, and a whole that draws on them.

A plan is JSON in the job's row. A job with parts waits for them; its own training comes last and
is told what they came to.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from algorithms.evaluation.metrics import deciding_metric, metrics_for
from algorithms.evaluation.search import Search, best
from algorithms.evaluation.validation import cross_validate, mean_score
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace

Plan = dict[str, Any]

#: Kinds of plans.
SCORE: Final = "score"
SEARCH: Final = "search"


def search_plan(search: Search) -> Plan:
    """Give the plan of a job that takes the best of its parts' parameters."""
    return {"kind": SEARCH, "search": search.model_dump(mode="json")}


def score_plan(search: Search, position: int) -> Plan:
    """Give the plan of a part: judge one choice of parameters."""
    return {"kind": SCORE, "position": position, "n_folds": search.n_folds}


def score(
    plan: Plan,
    algorithm: Algorithm[Any, Any],
    tasks: TaskSet,
    params: Any,
    *,
    seed: int,
    trace: Trace,
) -> dict[str, Any]:
    """Give what a part comes to."""
    metrics = metrics_for(algorithm, tasks.tasks[0].target)
    scores = cross_validate(
        algorithm, tasks, params, metrics=metrics, n_folds=plan["n_folds"], seed=seed, trace=trace
    )
    return {"params": params.model_dump(mode="json"), "scores": scores}


def conclude(
    plan: Plan, parts: Sequence[Mapping[str, Any]], algorithm: Algorithm[Any, Any], tasks: TaskSet
) -> tuple[Any, dict[str, Any]]:
    """Give the parameters to train with, and the report that goes with the model.

    Parameters
    ----------
    parts
        What each part came to, in order.
    """
    search = Search.model_validate(plan["search"])
    metric = deciding_metric(metrics_for(algorithm, tasks.tasks[0].target), search.metric)
    chosen = best([part["scores"] for part in parts], metric)
    values = parts[chosen]["params"]
    report = {
        "search": {
            "metric": metric.name,
            "larger_is_better": metric.larger_is_better,
            "n_folds": search.n_folds,
            "best": chosen,
            "candidates": [
                {
                    "params": {name: part["params"][name] for name in search.space},
                    "mean": {name: mean_score(part["scores"][name]) for name in part["scores"]},
                    "by_task": {
                        name: _mean(values) for name, values in part["scores"][metric.name].items()
                    },
                }
                for part in parts
            ],
        }
    }
    return algorithm.Params.model_validate(values, strict=False), report


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
