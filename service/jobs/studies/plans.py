"""Plans of jobs that do more than one fit: searches, comparisons, evaluations, adaptations.

A plan is JSON in the row of the job. A search, comparison or evaluation runs as child jobs; the
parent job waits for them, combines their results, and trains the model last. This module creates
child jobs (when a job is submitted, and after each round of a search), runs them (in the child
process), and combines their results.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from algorithms.automatic import plan_automatic
from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.comparison.comparison import CompareOptions, EvaluateOptions
from algorithms.evaluation.scores.leaks import find_leaks
from algorithms.evaluation.scores.metrics import metrics_for
from algorithms.evaluation.scores.recall import report_classes
from algorithms.evaluation.selection.left_out_tasks import score_left_out_tasks
from algorithms.evaluation.selection.paths import fit_candidates, fit_single
from algorithms.evaluation.selection.search import SearchOptions
from algorithms.evaluation.selection.validation import Fit, score_splits
from algorithms.interface.errors import AlgorithmError, Diverged, InvalidData, InvalidParams
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS, NewTasks
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.requirements import Algo
from algorithms.splits.splits import Splits
from service.jobs.studies.child_jobs import ADAPT, AUTOMATIC, ChildJob, Plan
from service.jobs.studies.comparisons import (
    COMPARISON,
    EVALUATION,
    LEFT_OUT_TASKS,
    child_job_of_left_out_tasks,
    child_jobs_of_methods,
    plan_comparison,
    plan_evaluation,
    report_comparison,
    report_evaluation,
    report_left_out_tasks,
    report_predictions,
)
from service.jobs.studies.searches import (
    SEARCH,
    child_jobs_of_round,
    count_child_jobs,
    fit_with_search,
    plan_search,
    report_search,
)

SCORE: Final = "score"
STUDY: Final = "study"

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Study:
    """A job's plan and its first child jobs."""

    plan: Plan
    child_jobs: tuple[ChildJob, ...]


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """Options of a search, a comparison and an evaluation; None if not requested."""

    search: SearchOptions | None = None
    compare: CompareOptions | None = None
    evaluate: EvaluateOptions | None = None


def plan_job(
    algorithm: Algo,
    values: Mapping[str, Any],
    tasks: Sequence[TaskSummary],
    options: StudyOptions,
    *,
    seed: int,
    unit: str | None = None,
    new_tasks: NewTasks = DEFAULT_NEW_TASKS,
) -> Study:
    """Return the plan and the first child jobs of a study.

    Parameters
    ----------
    values
        Parameters as the user gave them.
    unit
        Name of the target, if it has one.
    new_tasks
        If 'common', an evaluation scores tasks that are left out, too.

    Raises
    ------
    AlgorithmError
        The options are invalid for the algorithm or the tasks.
    """
    plan: Plan = {"kind": STUDY, "algorithm": algorithm.name}
    children: list[ChildJob] = []
    n_later = 0
    if options.search is not None:
        with errors_in("search"):
            plan[SEARCH] = plan_search(algorithm, values, tasks, options.search, seed=seed)
        # inside the training rows of a split a rare class may be missing
        metric = plan[SEARCH]["metric"]
        options = replace(options, search=options.search.model_copy(update={"metric": metric}))
        children += child_jobs_of_round(algorithm, plan[SEARCH], [])
        n_later = count_child_jobs(algorithm, plan[SEARCH]) - len(children)
    if options.compare is not None:
        with errors_in("compare"):
            plan[COMPARISON] = plan_comparison(algorithm, values, tasks, options.compare)
        children += child_jobs_of_methods(
            plan[COMPARISON],
            options.search,
            of=COMPARISON,
            has_predictions=options.evaluate is None,
        )
    if options.evaluate is not None:
        with errors_in("evaluate"):
            plan[EVALUATION] = plan_evaluation(algorithm, values, tasks, options.evaluate)
        children += child_jobs_of_methods(plan[EVALUATION], options.search, of=EVALUATION)
        if new_tasks == "common" and len(tasks) > 1:
            children.append(child_job_of_left_out_tasks(plan[EVALUATION]))
    for purpose in plan.keys() & {SEARCH, COMPARISON, EVALUATION}:
        plan[purpose]["unit"] = unit
    plan["n_child_jobs"] = n_later + len(children)
    return Study(plan, _numbered(children, first=0))


def plan_choice(
    tasks: Sequence[TaskSummary],
    options: AutomaticOptions,
    *,
    new_tasks: NewTasks = DEFAULT_NEW_TASKS,
    unit: str | None = None,
) -> Study:
    """Return the plan of an automatic choice of the algorithm, which has no child jobs.

    Parameters
    ----------
    new_tasks
        What calls of the model do about tasks that it was not trained on.
    unit
        Name of the target, if it has one.

    Raises
    ------
    AlgorithmError
        The options are invalid for the tasks, or no algorithm suits them.
    """
    with errors_in("params"):
        choice = {**plan_automatic(tasks, options, new_tasks=new_tasks), "unit": unit}
    return Study({"kind": STUDY, "algorithm": AUTOMATIC, AUTOMATIC: choice}, ())


def plan_adaptation(
    version_id: str, *, model: str, version: int, columns: Sequence[Mapping[str, Any]]
) -> Plan:
    """Return the plan of a job that adds tasks to a stored version of a model.

    Parameters
    ----------
    columns
        Column order of each task, as :func:`service.datasets.column_orders.pack_orders` writes
        it.
    """
    return {
        "kind": ADAPT,
        "version_id": version_id,
        "model": model,
        "version": version,
        "columns": columns,
    }


def next_child_jobs(plan: Plan, results: Sequence[Result]) -> tuple[ChildJob, ...]:
    """Return the child jobs that follow from the results so far; none if the study is complete."""
    if SEARCH not in plan:
        return ()
    algorithm = ALGORITHMS[plan["algorithm"]]
    more = child_jobs_of_round(algorithm, plan[SEARCH], _results_of(results, SEARCH))
    return _numbered(more, first=len(results))


def run_child_job(
    plan: Plan, algorithm: Algo, tasks: TaskSet, *, seed: int, trace: Trace
) -> dict[str, Any]:
    """Fit and score the candidates of a child job; return its result."""
    if plan["of"] == AUTOMATIC:  # an earlier version queued it; its parent needs no result now
        return {"scores": None, "plan": plan, "failed": None}
    candidates = plan["param_sets"]
    if plan["of"] == SEARCH:
        fit = fit_candidates(algorithm, candidates)
    elif plan["search"] is None:
        (values,) = candidates
        fit = fit_single(algorithm, values)
    else:
        (values,) = candidates
        fit = fit_with_search(
            algorithm, values, SearchOptions.model_validate(plan["search"]), seed=seed
        )
    try:
        return {**_score(plan, fit, algorithm, tasks, seed=seed, trace=trace), "failed": None}
    except (InvalidData, InvalidParams, Diverged) as error:
        # only a baseline, and scores on left-out tasks, may fail without failing the study
        if not (plan.get("method") or plan.get("may_fail")):
            raise
        return {"scores": None, "plan": plan, "failed": error.message}


def _score(
    plan: Plan, fit: Fit, algorithm: Algo, tasks: TaskSet, *, seed: int, trace: Trace
) -> dict[str, Any]:
    metrics = metrics_for([algorithm], tasks.tasks)
    if plan["of"] == LEFT_OUT_TASKS:
        left_out = score_left_out_tasks(fit, tasks, metrics, seed=seed, trace=trace)
        return {"scores": [left_out], "plan": plan}
    scores = score_splits(
        fit,
        tasks,
        Splits.model_validate(plan["splits"], strict=False),
        plan["indices"],
        n_candidates=len(plan["param_sets"]),
        metrics=metrics,
        seed=seed,
        trace=trace,
        min_rows=plan.get("min_rows", 1),
        n_predictions=plan.get("n_predictions", 0),
    )
    return {"scores": scores, "plan": plan}


def combine_results(
    plan: Plan, results: Sequence[Result], tasks: TaskSet
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the best parameters, if the plan selects any, and the report of the model.

    Parameters
    ----------
    results
        Results of the child jobs, in order.
    """
    values: dict[str, Any] | None = None
    report: dict[str, Any] = {}
    predictions = report_predictions(results)
    if SEARCH in plan:
        values, report["search"] = report_search(
            ALGORITHMS[plan["algorithm"]], plan[SEARCH], _results_of(results, SEARCH), tasks
        )
    if COMPARISON in plan:
        scored = _results_of(results, COMPARISON)
        report["comparison"] = report_comparison(plan[COMPARISON], scored, tasks)
    if EVALUATION in plan:
        scored = _results_of(results, EVALUATION)
        report["evaluation"] = {
            **report_evaluation(plan[EVALUATION], scored, tasks),
            LEFT_OUT_TASKS: report_left_out_tasks(_results_of(results, LEFT_OUT_TASKS)),
        }
    report["leaking_columns"] = find_leaks(tasks)
    if predictions is not None:
        report["predictions"] = predictions
        report["classes"] = report_classes(predictions, tasks)
    return values, report


@contextmanager
def errors_in(place: str) -> Iterator[None]:
    """Add the field of the job specification to errors."""
    try:
        yield
    except AlgorithmError as error:
        error.place = place
        raise


def _results_of(results: Sequence[Result], purpose: str) -> list[Result]:
    return [result for result in results if result["plan"]["of"] == purpose]


def _numbered(children: Sequence[ChildJob], *, first: int) -> tuple[ChildJob, ...]:
    return tuple(
        replace(child, plan={**child.plan, "kind": SCORE, "position": position})
        for position, child in enumerate(children, start=first)
    )
