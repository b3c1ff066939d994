"""Jobs: the list, and one job."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.job_states import JobState
from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.tables import Cell, Row, Table
from service.ui.views.lists import (
    PAGE_SIZE,
    Choice,
    ListView,
    algorithm_names,
    list_view,
    model_href,
    only,
)

COLUMNS: Final = ("Job", "State", "Progress", "Algorithm", "Model", "Submitted")
_EVENTS: Final = 200


def job_rows(items: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of a table of jobs."""
    return [Row(job["id"], _cells(job)) for job in items]


def _cells(job: Mapping[str, Any]) -> list[Cell]:
    return [
        tables.text(job["model"], f"/jobs/{job['id']}", note=job["id"]),
        tables.state(job["state"]),
        progress_cell(job),
        tables.text(job["algorithm"], f"/algorithms/{segment(job['algorithm'])}"),
        model_cell(job),
        tables.time(job["created_at"]),
    ]


def model_cell(job: Mapping[str, Any]) -> Cell:
    """Return the model of a job, which is there once it has a version."""
    if job["version"] is None:
        return tables.text(None)
    note = "" if job["inference"] is None else f"{job['inference']['method']} of a dataset"
    href = model_href(job["model"], job["version"])
    return tables.text(f"{job['model']} / {job['version']}", href, note=note)


def progress_cell(job: Mapping[str, Any]) -> Cell:
    """Return the progress of a job, why it failed, or how long it took."""
    if job["error"] is not None:
        return tables.text(job["error"]["detail"].splitlines()[0])
    if job["is_final"]:
        start = job["started_at"]
        return Cell(formats.elapsed(start, job["finished_at"]) if start else formats.NONE)
    children = job["child_jobs"]
    if children and job["state"] == JobState.WAITING:
        done, total = children.get(JobState.SUCCEEDED, 0), sum(children.values())
        return tables.meter(done / total, f"{done} of {total} parts done")
    if job["progress"] is None:
        return Cell(formats.NONE)
    left = job["progress"]["remaining_s"]
    label = formats.share(job["progress"]["fraction"])
    if left is not None:
        label += f", about {formats.duration(left)} left"
    return tables.meter(job["progress"]["fraction"], label)


async def jobs_view(api: Api, query: Mapping[str, str]) -> ListView:
    """Return a page of jobs."""
    where = only(query, "state", "algorithm", "dataset_id", "parent")
    found = await api.get("/v1/jobs", page_size=PAGE_SIZE, **where)
    names = await algorithm_names(api)
    empty = "No job matches." if where else "No job has been submitted yet."
    states = [str(state) for state in JobState]
    return list_view(
        "/jobs",
        "Jobs",
        "Training and batch inference, newest first.",
        Table("Jobs, newest first", COLUMNS, job_rows(found["items"]), empty),
        query=where,
        token=found["next_page_token"],
        choices=[
            Choice("state", "State", states, where.get("state", "")),
            Choice("algorithm", "Algorithm", names, where.get("algorithm", "")),
        ],
    )


@dataclass(frozen=True, slots=True)
class Curve:
    """A quantity at each report of progress.

    Parameters
    ----------
    points
        Points of a line in a box of 600 by 120; empty without two values.
    label
        What it shows, as a sentence.
    """

    key: str
    points: str
    label: str


@dataclass(frozen=True, slots=True)
class JobView:
    """A job.

    Parameters
    ----------
    sentence
        What happens or has happened.
    curves
        Objective and distance from the optimum at each report of progress.
    """

    job: Mapping[str, Any]
    sentence: str
    progress: Cell
    facts: Sequence[tuple[str, Cell]]
    params: Sequence[tuple[str, Cell]]
    curves: Sequence[Curve]
    children: Table | None
    attempts: Table
    events: Table


async def job_view(api: Api, job_id: str) -> JobView:
    """Return the view of a job."""
    path = f"/v1/jobs/{segment(job_id)}"
    job = await api.get(path)
    events = (await api.get(f"{path}/events", page_size=1000))["items"]
    children = None
    if job["child_jobs"]:
        found = await api.get("/v1/jobs", parent=job_id, page_size=200)
        children = Table("Parts, newest first", COLUMNS, job_rows(found["items"]))
    return JobView(
        job=job,
        sentence=_sentence(job),
        progress=progress_cell(job),
        facts=_facts(job),
        params=[(name, tables.text(value)) for name, value in job["params"].items()],
        curves=curves_of(events),
        children=children,
        attempts=Table(
            "Attempts",
            ("Attempt", "Outcome", "Worker", "Started", "Duration", "Error"),
            [Row(f"attempt-{a['attempt']}", _attempt_cells(a)) for a in job["attempts"]],
            "It has not started yet.",
        ),
        events=Table(
            "Events, newest first",
            ("Event", "Contents", "Time"),
            [Row(f"event-{e['id']}", _event_cells(e)) for e in events[::-1][:_EVENTS]],
        ),
    )


def _sentence(job: Mapping[str, Any]) -> str:
    what = f"{job['algorithm']} for the model {job['model']}"
    children = job["child_jobs"]
    states: dict[str, str] = {
        "waiting": f"{children.get('succeeded', 0)} of {sum(children.values())} parts are done; "
        "the model is trained once all are.",
        "queued": f"{what} waits for a free worker.",
        "submitted": f"{what} starts.",
        "running": f"{what} is being trained.",
        "cancelling": f"{what} is being cancelled.",
        "cancelled": f"{what} was cancelled.",
        "timed_out": f"{what} took longer than its limit, {formats.duration(job['timeout_s'])}.",
        "failed": f"{what} failed.",
        "succeeded": f"{what} has been trained.",
    }
    if job["inference"] is not None:
        what = f"{job['inference']['method']} of {job['model']} / {job['version']}"
        states |= {"running": f"{what} runs.", "succeeded": f"{what} has run."}
    return states[job["state"]]


def _facts(job: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts = [
        ("Algorithm", tables.text(job["algorithm"], f"/algorithms/{segment(job['algorithm'])}")),
        ("Dataset", tables.code(job["dataset_id"], f"/datasets/{job['dataset_id']}")),
        ("Seed", tables.text(str(job["seed"]))),
        ("Submitted", tables.time(job["created_at"])),
        ("Started", tables.time(job["started_at"])),
        ("Ended", tables.time(job["finished_at"])),
        ("Time limit", tables.text(formats.duration(job["timeout_s"]))),
        ("Memory limit", tables.text(formats.size(job["memory_mb"] * 2**20))),
    ]
    model = tables.text(job["model"]) if job["version"] is None else model_cell(job)
    facts.insert(0, ("Model", model))
    if job["parent"] is not None:
        facts.insert(0, ("Part of", tables.code(job["parent"], f"/jobs/{job['parent']}")))
    return facts


def _attempt_cells(attempt: Mapping[str, Any]) -> list[Cell]:
    error = attempt["error"]
    return [
        tables.number(attempt["attempt"]),
        tables.state(attempt["outcome"]),
        tables.code(attempt["worker"]),
        tables.time(attempt["started_at"]),
        tables.quantity(formats.elapsed(attempt["started_at"], attempt["finished_at"])),
        tables.text(formats.NONE if error is None else error["detail"]),
    ]


def _event_cells(event: Mapping[str, Any]) -> list[Cell]:
    data = {name: value for name, value in event["data"].items() if value is not None}
    return [tables.text(event["kind"]), tables.text(data), tables.time(event["created_at"])]


def curves_of(events: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """Return the curves of the objective and of the distance from its optimum.

    They show the last loop only: each loop has an objective of its own.
    """
    steps = [event["data"] for event in events if event["kind"] == "progress"]
    loop = steps[-1].get("loop") if steps else None
    own = [step for step in steps if step.get("loop") == loop]
    of_loop = f" of the loop '{loop}'" if loop else ""
    objectives = [value for step in own if (value := step.get("objective")) is not None]
    residuals = [value for step in own if (value := step.get("residual")) is not None and value > 0]
    return [
        _curve("curve", f"The objective{of_loop}", objectives, objectives),
        _curve(
            "residual",
            "The distance from the optimum (duality gap, or relative gradient; log scale)",
            residuals,
            [math.log10(value) for value in residuals],
        ),
    ]


def _curve(key: str, what: str, values: Sequence[float], heights: Sequence[float]) -> Curve:
    """Return a curve through the heights, described by the values."""
    if len(values) < 2:
        return Curve(key, "", "")
    low, span = min(heights), (max(heights) - min(heights)) or 1.0
    step = 600 / (len(heights) - 1)
    points = (
        f"{i * step:.1f},{115 - 110 * (height - low) / span:.1f}"
        for i, height in enumerate(heights)
    )
    label = (
        f"{what} went from {formats.number(values[0], 5)} to {formats.number(values[-1], 5)} "
        f"in {formats.count(len(values), 'report')} of progress."
    )
    return Curve(key, " ".join(points), label)
