"""Training requests: read the tasks, fit the model, return the result."""

import platform
import resource
import time
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

# imported before the first request, so that no job waits for them
import scipy.cluster.hierarchy
import scipy.linalg  # noqa: F401

from algorithms.automatic import fit_automatic
from algorithms.ensemble.automatic import Choice
from algorithms.ensemble.held_out import RowOptions
from algorithms.evaluation.scores.importance import importance_of
from algorithms.interface.errors import AlgorithmError, Cancelled
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Checkpoint, Step, Trace
from algorithms.interface.units import tie_rows
from algorithms.numerics.threads import blas_threads, limit_blas_threads
from algorithms.registry import ALGORITHMS, EXTENSIONS, load_model, save_model
from algorithms.splits.requirements import Algo
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.calibration.model import CalibratedModel
from algorithms.wrappers.preparation.algorithm import for_model, prepared
from algorithms.wrappers.preparation.columns import Column, is_one_category
from algorithms.wrappers.preparation.model import preparation_of
from algorithms.wrappers.preparation.recipe import Recipe
from algorithms.wrappers.weights import weighted
from service.datasets.canonical import read_all_rows, read_tasks
from service.datasets.column_orders import unpack_orders
from service.datasets.manifest import (
    columns_of_manifest,
    ignored_of_manifest,
    task_column_of_manifest,
)
from service.jobs.studies import plans
from service.jobs.studies.child_jobs import ADAPT, AUTOMATIC, INFER, Plan
from service.jobs.studies.comparisons import EVALUATION
from service.observability.tracing import span, start_tracing
from service.processes.wire import Wire
from service.storage.job_states import AttemptCommand
from service.storage.shortages import JOBS, find_shortage, shortages_in

#: Minimum time between two progress messages.
PROGRESS_INTERVAL_S: Final = 0.1
#: Bounds of the time that the importance of columns may take.
MIN_IMPORTANCE_S: Final = 1.0
MAX_IMPORTANCE_S: Final = 10.0
_DISTRIBUTIONS: Final = ("sibling", "numpy", "scipy", "numba")


def run_request(request: dict[str, Any], wire: Wire) -> dict[str, Any]:
    """Run a training request; return its result or error as a message.

    Progress messages are sent, and cancel messages received, while it runs.
    """
    if request.get("traceparent") is not None:
        start_tracing("training")
    try:
        with shortages_in(JOBS):
            return _run(request, wire)
    except Cancelled:
        return {"type": "cancelled"}
    except Exception as error:  # noqa: BLE001 - the supervisor reports every error
        return _describe(error)


def _describe(error: Exception) -> dict[str, Any]:
    """Return the message about an error."""
    shortage = find_shortage(error)
    if shortage is not None:
        return {"type": "postponed", "detail": str(shortage)}
    if isinstance(error, AlgorithmError):
        place = {"task": error.task, "row": error.row, "column": error.column, "field": error.field}
        place = {key: value for key, value in place.items() if value is not None}
        return {"type": "failed", "code": error.code, "detail": error.message, "place": place}
    if isinstance(error, MemoryError):
        detail = f"the job needs more memory than its limit: {error}"
        return {"type": "failed", "code": "out-of-memory", "detail": detail, "place": {}}
    traceback.print_exception(error)
    detail = f"{type(error).__name__}: {error}"
    return {"type": "failed", "code": "internal-error", "detail": detail, "place": {}}


def _run(request: dict[str, Any], wire: Wire) -> dict[str, Any]:
    plan = request["plan"]
    kind = None if plan is None else plan["kind"]
    on_step, messages = _Progress(wire), _Messages(wire)
    is_cancelled = messages.is_cancelled
    if kind == INFER:
        # imported late: it loads Arrow, which training does not need
        from service.jobs.worker.inference import infer

        with span("inference", parent=request.get("traceparent")):
            result = infer(request, on_step=on_step, is_cancelled=is_cancelled)
        return {"type": "succeeded", "result": result}
    with span("read", parent=request.get("traceparent")):
        tasks = read_tasks(Path(request["dataset"]), request["manifest"])
        tasks = _tied(tasks, request)
    checkpoint = Checkpoint(Path(request["checkpoint"]), every_s=request["checkpoint_interval_s"])
    trace = Trace(
        on_step=on_step,
        is_cancelled=is_cancelled,
        checkpoint=checkpoint,
        is_ending=messages.is_ending,
    )
    if kind == plans.SCORE:
        is_evaluated = plan["of"] == EVALUATION  # only in evaluations, as it takes several fits
        algorithm = _algorithm(request, is_calibrated=is_evaluated)
        with _fit_span(request):
            result = plans.run_child_job(plan, algorithm, tasks, seed=request["seed"], trace=trace)
        return {"type": "scored", "result": result}
    return {"type": "succeeded", "result": _train(request, kind, tasks, trace)}


def _tied(tasks: TaskSet, request: dict[str, Any]) -> TaskSet:
    """Return tasks whose rows know which of them are held out together."""
    is_category = is_one_category(columns_of_manifest(request["manifest"]))
    return tie_rows(tasks, request["ties"], is_category=is_category)


def _train(
    request: dict[str, Any], kind: str | None, tasks: TaskSet, trace: Trace
) -> dict[str, Any]:
    """Fit or adapt a model and save it; return its description."""
    plan, values, report = request["plan"], request["params"], None
    started, chosen, base_algorithm = time.monotonic(), None, None
    if kind == plans.STUDY and AUTOMATIC in plan:
        with _fit_span(request):
            choice, report = _choose(request, tasks, trace)
        values, base_algorithm = choice.values, choice.algorithm
        request = {**request, "algorithm": base_algorithm.name}
        chosen = choice.model
    elif kind == plans.STUDY:
        best, report = plans.combine_results(plan, request["child_results"], tasks)
        values = values if best is None else best  # {}: all parameters at their defaults
        started = time.monotonic()
    algorithm = _algorithm(request, is_calibrated=True, base=base_algorithm)
    params = algorithm.parse(values)
    if kind != ADAPT and algorithm.needs.ignores_targets({task.target for task in tasks}):
        tasks = read_all_rows(Path(request["dataset"]), request["manifest"])
        tasks = _tied(tasks, request)
    with _fit_span(request):
        if kind == ADAPT:
            base = load_model(Path(request["base"]))
            columns = columns_of_manifest(request["manifest"])
            adapting = for_model(ALGORITHMS[request["algorithm"]], base, columns)
            has_weights = any(task.weights is not None for task in tasks)
            adapting = weighted(adapting, None, has_weights=has_weights)
            model = _adapt(base, adapting, plan, tasks, trace)
            task_column, new_tasks = base.task_column, base.new_tasks
            left_out = ignored_of_manifest(request["manifest"]).union(base.ignored_columns or ())
        else:
            model = chosen
            if chosen is None:
                algorithm.check(tasks.summaries(), params)
                rng = np.random.default_rng(request["seed"])
                with limit_blas_threads(tasks.order):
                    model = algorithm.fit(tasks, params, trace=trace, rng=rng)
            task_column, new_tasks = DEFAULT_TASK_COLUMN, request["new_tasks"]
            left_out = ignored_of_manifest(request["manifest"])
    if task_column == DEFAULT_TASK_COLUMN:  # else an adapted model keeps the name that it has
        task_column = task_column_of_manifest(request["manifest"])
    model = model.with_task_column(task_column).with_new_tasks(new_tasks)
    model = model.with_ignored_columns(left_out)
    fit_s = time.monotonic() - started
    save_model(model, Path(request["artifact"]))
    if chosen is None:  # a choice has its own report
        if isinstance(model, CalibratedModel):
            report = {**(report or {}), "calibration": model.report()}
        race = model.race()
        if race is not None:
            report = {**(report or {}), "race": race}
    preparation = preparation_of(model)
    return {
        "algorithm": algorithm.name,
        "params": params.model_dump(mode="json"),
        "tasks": list(model.tasks),
        "task_column": model.task_column,
        "new_tasks": model.new_tasks,
        "classes": {task: list(labels) for task in model.tasks if (labels := model.classes(task))},
        "methods": list(model.available_methods()),
        "metrics": model.metrics,
        "warnings": [*_search_warnings(report), *model.warnings],
        "history": _history(
            trace, fit_s, is_race=chosen is not None or ALGORITHMS[model.algorithm].is_combined
        ),
        "report": report,
        "importance": None if kind == ADAPT else _importance(model, tasks, request["seed"], fit_s),
        "preparation": None if preparation is None else preparation.describe(),
        "software": _software(model.algorithm),
    }


def _choose(request: dict[str, Any], tasks: TaskSet, trace: Trace) -> tuple[Choice, dict[str, Any]]:
    """Return the automatic choice of a request, and the report of the model."""
    columns, recipe = _columns_and_recipe(request)
    return fit_automatic(
        request["plan"][AUTOMATIC],
        tasks,
        rows=RowOptions(columns, recipe, request.get("class_weight")),
        calibration=request["calibration"],
        seed=request["seed"],
        trace=trace,
    )


def _importance(model: Any, tasks: TaskSet, seed: int, fit_s: float) -> dict[str, Any] | None:
    """Return the importance of the columns as JSON; None if the model has none.

    Permutations take at most about as long as the fit, within bounds.
    """
    budget_s = min(max(fit_s, MIN_IMPORTANCE_S), MAX_IMPORTANCE_S)
    try:
        importance = importance_of(
            model, tasks.tasks, rng=np.random.default_rng(seed), budget_s=budget_s
        )
    except AlgorithmError:  # values that overflow in permuted rows must not cost the model
        return None
    return None if importance is None else importance.model_dump()


def _software(algorithm: str) -> dict[str, str]:
    """Return the versions of the software that trained a model, and the number of threads."""
    software = {"python": platform.python_version(), "threads": str(blas_threads())}
    extension = EXTENSIONS.get(algorithm)
    if extension is not None:
        software[extension.package] = extension.version
    return software | {name: version(name) for name in _DISTRIBUTIONS}


def _algorithm(request: dict[str, Any], *, is_calibrated: bool, base: Algo | None = None) -> Algo:
    """Return the algorithm of a request, which prepares the rows of the dataset if necessary.

    Parameters
    ----------
    is_calibrated
        Whether models are calibrated, if the request says how.
    base
        The algorithm for prepared rows; None: as the request names it.
    """
    algorithm = ALGORITHMS[request["algorithm"]] if base is None else base
    algorithm = prepared(algorithm, *_columns_and_recipe(request))
    has_weights = any(entry.get("has_weights") for entry in request["manifest"]["tasks"])
    algorithm = weighted(algorithm, request.get("class_weight"), has_weights=has_weights)
    return calibrated(algorithm, request["calibration"] if is_calibrated else None)


def _columns_and_recipe(
    request: dict[str, Any],
) -> tuple[Sequence[Column] | None, Recipe | None]:
    """Return the kinds of the columns of a dataset, and how a request prepares them."""
    options = request["preparation"]
    recipe = None if options is None else Recipe.model_validate(options, strict=False)
    return columns_of_manifest(request["manifest"]), recipe


def _fit_span(request: dict[str, Any]) -> AbstractContextManager[Any]:
    return span("fit", parent=request.get("traceparent"), algorithm=request["algorithm"])


def _search_warnings(report: dict[str, Any] | None) -> list[str]:
    """Return the warnings of the search of a study."""
    search = (report or {}).get("search")
    return [] if search is None else list(search["warnings"])


def _adapt(model: Any, algorithm: Algo, plan: Plan, tasks: TaskSet, trace: Trace) -> Any:
    """Return the model with the tasks added, their columns in the order of the model."""
    columns = unpack_orders(plan.get("columns"))
    for task in trace.parts(tasks.tasks):
        is_same = task.name not in columns
        new = task if is_same else task.select_columns(columns[task.name])
        with limit_blas_threads(TaskSet((new,)).order):
            model = algorithm.adapt(model, new, trace=trace)
    return model


class _Messages:
    """Messages of the supervisor while a request runs."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._received: set[str] = set()

    def is_cancelled(self) -> bool:
        """Return whether to stop, without a result."""
        return self._has("cancel") or self._wire.is_closed

    def is_ending(self) -> bool:
        """Return whether to end with the result so far."""
        return self._has(AttemptCommand.FINISH)

    def _has(self, type_: str) -> bool:
        while (message := self._wire.receive(0)) is not None:
            self._received.add(message["type"])
        return type_ in self._received


class _Progress:
    """Progress messages to the supervisor, at most one per interval."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sent = 0.0

    def __call__(self, step: Step) -> None:
        now = time.monotonic()
        if now - self._sent < PROGRESS_INTERVAL_S:
            return
        self._sent = now
        remaining_s = None
        if step.fraction > 0:
            remaining_s = step.elapsed_s * (1 - step.fraction) / step.fraction
            if step.left_s is not None:
                remaining_s = min(remaining_s, step.left_s)
            remaining_s = round(remaining_s, 3)
        progress = {
            "loop": step.loop,
            "iteration": step.iteration,
            "objective": step.objective,
            "residual": step.residual,
            "fraction": round(step.fraction, 4),
            "elapsed_s": round(step.elapsed_s, 3),
            "remaining_s": remaining_s,
            **step.found,
        }
        self._wire.send({"type": "progress", "progress": progress})


def _history(trace: Trace, fit_s: float, *, is_race: bool) -> dict[str, Any]:
    """Return the steps of the fit by column, the stop reasons, the time and the peak memory.

    The last loop of a race learns the weights, so its stop reason says nothing about the fit.
    """
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    columns = ("loop", "iteration", "objective", "residual", "elapsed_s")
    return {
        "stop_reason": None if is_race else trace.stop_reason,
        "stop_reasons": trace.stop_reasons,
        "fit_s": round(fit_s, 6),
        "peak_memory_mb": round(peak_mb, 1),
        "steps": {name: [getattr(step, name) for step in trace.history] for name in columns},
    }
