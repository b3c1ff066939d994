"""What a job does beside one fit: parts that are judged, and a whole that draws on them.

A plan is JSON in the job's row. A job with parts waits for them; its own training comes last and
is told what they came to. This module lays parts out (when a job is submitted, and when a round
of a search has ended) and carries them out (in the process that trains).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from algorithms.evaluation.comparison import Compare, Evaluate
from algorithms.evaluation.metrics import metrics_for
from algorithms.evaluation.paths import fit_all
from algorithms.evaluation.search import Search
from algorithms.evaluation.splits import Splits
from algorithms.evaluation.validation import Fit, judge
from algorithms.interface.errors import AlgorithmError, InvalidData, InvalidParams
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from service.jobs.studies.child_jobs import ADAPT, Algo, Part, Plan
from service.jobs.studies.comparisons import (
    COMPARISON,
    EVALUATION,
    conclude_comparison,
    conclude_evaluation,
    parts_of_methods,
    plan_comparison,
    plan_evaluation,
)
from service.jobs.studies.searches import (
    SEARCH,
    conclude_search,
    count_parts,
    fit_searched,
    parts_of_round,
    plan_search,
)

SCORE: Final = "score"
STUDY: Final = "study"

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Study:
    """A job's plan and its first parts."""

    plan: Plan
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for beside a fit."""

    search: Search | None = None
    compare: Compare | None = None
    evaluate: Evaluate | None = None


def lay_out(
    algorithm: Algo,
    values: Mapping[str, Any],
    tasks: Sequence[TaskSummary],
    asked: Asked,
    *,
    seed: int,
) -> Study:
    """Return the plan and the first parts of what is asked for.

    Parameters
    ----------
    values
        Parameters as the user gave them.

    Raises
    ------
    AlgorithmError
        Something does not fit together.
    """
    plan: Plan = {"kind": STUDY, "algorithm": algorithm.name}
    parts: list[Part] = []
    n_parts = 0
    if asked.search is not None:
        with _about("search"):
            plan[SEARCH] = plan_search(algorithm, values, tasks, asked.search, seed=seed)
        parts += parts_of_round(algorithm, plan[SEARCH], [])
        n_parts += count_parts(algorithm, plan[SEARCH]) - len(parts)
    if asked.compare is not None:
        with _about("compare"):
            plan[COMPARISON] = plan_comparison(algorithm, values, tasks, asked.compare)
        parts += parts_of_methods(plan[COMPARISON], asked.search, of=COMPARISON)
    if asked.evaluate is not None:
        with _about("evaluate"):
            plan[EVALUATION] = plan_evaluation(algorithm, values, tasks, asked.evaluate)
        parts += parts_of_methods(plan[EVALUATION], asked.search, of=EVALUATION)
    plan["n_parts"] = n_parts + len(parts)
    return Study(plan, _numbered(parts, first=0))


def adaptation(
    version_id: str, *, model: str, version: int, columns: Sequence[Mapping[str, Any]]
) -> Plan:
    """Return the plan of a job that takes new tasks into a stored version of a model.

    Parameters
    ----------
    columns
        Orders of the columns of the tasks, as :func:`service.columns.pack_orders` writes them.
    """
    return {
        "kind": ADAPT,
        "version_id": version_id,
        "model": model,
        "version": version,
        "columns": columns,
    }


def next_parts(plan: Plan, results: Sequence[Result]) -> tuple[Part, ...]:
    """Return the parts that follow from what those so far came to; none where all is known."""
    if SEARCH not in plan:
        return ()
    algorithm = ALGORITHMS[plan["algorithm"]]
    more = parts_of_round(algorithm, plan[SEARCH], _of(results, SEARCH))
    return _numbered(more, first=len(results))


def carry_out(
    plan: Plan, algorithm: Algo, tasks: TaskSet, *, seed: int, trace: Trace
) -> dict[str, Any]:
    """Return what a part comes to."""
    tried = plan["tried"]
    if plan["search"] is None:
        fit = fit_all(algorithm, tried)
    else:
        (values,) = tried
        fit = fit_searched(algorithm, values, Search.model_validate(plan["search"]), seed=seed)
    try:
        return {**_scored(plan, fit, algorithm, tasks, seed=seed, trace=trace), "failed": None}
    except (InvalidData, InvalidParams) as error:
        if not plan.get("method"):  # of a baseline it does not end the whole
            raise
        return {"scores": None, "plan": plan, "failed": error.message}


def _scored(
    plan: Plan, fit: Fit, algorithm: Algo, tasks: TaskSet, *, seed: int, trace: Trace
) -> dict[str, Any]:
    scores = judge(
        fit,
        tasks,
        Splits.model_validate(plan["splits"], strict=False),
        plan["indices"],
        n_candidates=len(plan["tried"]),
        metrics=metrics_for([algorithm], tasks.tasks),
        seed=seed,
        trace=trace,
        least=plan.get("least", 1),
    )
    return {"scores": scores, "plan": plan}


def draw_on(
    plan: Plan, results: Sequence[Result], tasks: TaskSet
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the parameters that a search found, if there was one, and the report for the model.

    Parameters
    ----------
    results
        What each part came to, in order.
    """
    values, report = None, {}
    if SEARCH in plan:
        values, report["search"] = conclude_search(plan[SEARCH], _of(results, SEARCH), tasks)
    if COMPARISON in plan:
        found = _of(results, COMPARISON)
        report["comparison"] = conclude_comparison(plan[COMPARISON], found, tasks)
    if EVALUATION in plan:
        found = _of(results, EVALUATION)
        report["evaluation"] = conclude_evaluation(plan[EVALUATION], found, tasks)
    return values, report


@contextmanager
def _about(place: str) -> Iterator[None]:
    """Have errors say which part of the specification they are about."""
    try:
        yield
    except AlgorithmError as error:
        error.place = place
        raise


def _of(results: Sequence[Result], what: str) -> list[Result]:
    return [part for part in results if part["plan"]["of"] == what]


def _numbered(parts: Sequence[Part], *, first: int) -> tuple[Part, ...]:
    return tuple(
        replace(part, plan={**part.plan, "kind": SCORE, "position": position})
        for position, part in enumerate(parts, start=first)
    )
