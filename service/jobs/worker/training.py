"""One order carried out: tasks read, a model fitted, what came of it told."""

import platform
import resource
import time
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.linalg  # noqa: F401 - imported before the first order, so that no job waits for it

from algorithms.interface.errors import AlgorithmError, Cancelled
from algorithms.interface.trace import Checkpoint, Step, Trace
from algorithms.numerics.threads import blas_threads
from algorithms.registry import ALGORITHMS, load_model, save_model
from service.columns import unpack_orders
from service.datasets.canonical import read_tasks
from service.jobs.studies import plans
from service.jobs.studies.child_jobs import ADAPT, INFER
from service.jobs.worker.wire import Wire

#: Least time between two progress messages.
PROGRESS_EVERY_S: Final = 0.1
_DISTRIBUTIONS: Final = ("sibling", "numpy", "scipy", "numba")


def answer(order: dict[str, Any], wire: Wire) -> dict[str, Any]:
    """Return the answer to an order; progress and cancel go over the wire meanwhile."""
    try:
        return _carry_out(order, wire)
    except Cancelled:
        return {"type": "cancelled"}
    except AlgorithmError as error:
        place = {"task": error.task, "row": error.row, "column": error.column, "field": error.field}
        place = {key: value for key, value in place.items() if value is not None}
        return {"type": "failed", "code": error.code, "detail": error.message, "place": place}
    except MemoryError as error:
        detail = f"the training needs more memory than the job's limit: {error}"
        return {"type": "failed", "code": "out_of_memory", "detail": detail, "place": {}}
    except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor must be told
        traceback.print_exc()
        detail = f"{type(error).__name__}: {error}"
        return {"type": "failed", "code": "defect", "detail": detail, "place": {}}


def _carry_out(order: dict[str, Any], wire: Wire) -> dict[str, Any]:
    plan, values, report = order["plan"], order["params"], None
    kind = None if plan is None else plan["kind"]
    on_step = _Progress(wire)

    def is_cancelled() -> bool:
        return wire.receive(0) is not None or wire.is_closed

    if kind == INFER:
        from service.batch.inference import infer  # brings Arrow, which no training needs

        result = infer(order, on_step=on_step, is_cancelled=is_cancelled)
        return {"type": "succeeded", "result": result}
    algorithm = ALGORITHMS[order["algorithm"]]
    tasks = read_tasks(Path(order["dataset"]), order["manifest"])
    trace = Trace(
        on_step=on_step,
        is_cancelled=is_cancelled,
        checkpoint=Checkpoint(Path(order["checkpoint"]), every_s=order["checkpoint_s"]),
    )
    if kind == plans.SCORE:
        result = plans.carry_out(plan, algorithm, tasks, seed=order["seed"], trace=trace)
        return {"type": "scored", "result": result}
    if kind == plans.STUDY:
        found, report = plans.draw_on(plan, order["parts"], tasks)
        values = found or values
    params = algorithm.parse(values)
    started = time.monotonic()
    if kind == ADAPT:
        model = load_model(Path(order["base"]))
        columns = unpack_orders(plan.get("columns"))
        for task in trace.parts(tasks.tasks):
            is_same = task.name not in columns
            new = task if is_same else task.select_columns(columns[task.name])
            model = algorithm.adapt(model, new, trace=trace)
    else:
        algorithm.check(tasks.summaries(), params)
        model = algorithm.fit(tasks, params, trace=trace, rng=np.random.default_rng(order["seed"]))
    fit_s = time.monotonic() - started
    save_model(model, Path(order["artifact"]))
    result = {
        "params": params.model_dump(mode="json"),
        "tasks": list(model.tasks),
        "classes": {task: list(labels) for task in model.tasks if (labels := model.classes(task))},
        "methods": list(model.own_methods()),
        "metrics": model.metrics,
        "warnings": list(model.warnings),
        "history": _history(trace, fit_s),
        "report": report,
        "software": {"python": platform.python_version(), "threads": str(blas_threads())}
        | {name: version(name) for name in _DISTRIBUTIONS},
    }
    return {"type": "succeeded", "result": result}


class _Progress:
    """Tells the supervisor how far the fit has come, not more often than it can use."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sent = 0.0

    def __call__(self, step: Step) -> None:
        now = time.monotonic()
        if now - self._sent < PROGRESS_EVERY_S:
            return
        self._sent = now
        remaining_s = None
        if step.fraction > 0:
            remaining_s = round(step.elapsed_s * (1 - step.fraction) / step.fraction, 3)
        progress = {
            "loop": step.loop,
            "iteration": step.iteration,
            "objective": step.objective,
            "residual": step.residual,
            "fraction": round(step.fraction, 4),
            "elapsed_s": round(step.elapsed_s, 3),
            "remaining_s": remaining_s,
        }
        self._wire.send({"type": "progress", "progress": progress})


def _history(trace: Trace, fit_s: float) -> dict[str, Any]:
    """Return the steps of the fit by column, why its loops stopped, and what it took."""
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    columns = ("loop", "iteration", "objective", "residual", "elapsed_s")
    return {
        "stop_reason": trace.stop_reason,
        "stop_reasons": trace.stop_reasons,
        "fit_s": round(fit_s, 6),
        "peak_memory_mb": round(peak_mb, 1),
        "steps": {name: [getattr(step, name) for step in trace.history] for name in columns},
    }
