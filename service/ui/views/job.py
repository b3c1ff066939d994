"""One job: its state, progress, parts and result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from algorithms.interface.durations import describe_duration
from algorithms.interface.new_tasks import NewTasksWarning
from algorithms.interface.unknown_categories import UnknownCategoriesWarning
from service.jobs.studies.child_jobs import AUTOMATIC
from service.ui import formats, tables
from service.ui.api import WRONG_STATE, Api, Refused, segment
from service.ui.api_examples import ApiExample, submission
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.answer import target_of
from service.ui.views.curves import Curve, curves_of
from service.ui.views.jobs import model_cell, progress_cell, state_cell
from service.ui.views.lists import FORBIDDEN, dataset_cell, model_href
from service.ui.views.notes import notes_of
from service.ui.views.parts import grid_of, part_table
from service.ui.views.race import RaceView, race_view
from service.ui.views.words import GroupWords, name_of

#: Maximum numbers of events in the curves, and in the table.
_MAX_EVENTS: Final = 1000
_SHOWN_EVENTS: Final = 200
_MAX_PARTS: Final = 200


@dataclass(frozen=True, slots=True)
class JobView:
    """A job.

    Parameters
    ----------
    sentence
        State or result of the job in a sentence.
    race
        Estimates of an automatic choice that runs, or its answer; None for other jobs.
    result
        Title and address of the result; None without one.
    curves
        Objective and distance from the optimum at each report of progress.
    error
        Code, detail and remedy of what ended it; None if nothing did.
    warnings, notes
        Notes that need an act, and notes that are good to know.
    grid
        States of the parts of a study, by method and split; None for other jobs.
    parts
        The first parts; None without parts.
    submission
        Request that submitted the job; None if its specification is not known.
    """

    job: Mapping[str, Any]
    title: str
    state: Cell
    sentence: str
    race: RaceView | None
    result: tuple[str, str] | None
    progress: Cell
    error: Mapping[str, Any] | None
    warnings: Sequence[str]
    notes: Sequence[str]
    facts: Sequence[tuple[str, Cell]]
    params: Sequence[tuple[str, Cell]]
    curves: Sequence[Curve]
    grid: Table | None
    parts: Table | None
    attempts: Table
    events: Table
    submission: ApiExample | None


async def job_view(api: Api, job_id: str) -> JobView:
    """Return the view of a job."""
    path = f"/v1/jobs/{segment(job_id)}"
    job = await api.get(path)
    events = await api.items(f"{path}/events", limit=_MAX_EVENTS)
    parts: Sequence[Mapping[str, Any]] = ()
    if job["child_jobs"]:
        parts = (await api.get("/v1/jobs", parent_id=job_id, page_size=_MAX_PARTS))["items"][::-1]
    dataset = await api.find(f"/v1/datasets/{job['dataset_id']}", refused=FORBIDDEN)
    words = await _words_of(api, job, dataset)
    race = race_view(job, words, target_of(dataset))
    warnings, notes = notes_of(job["warnings"], words)
    return JobView(
        job=job,
        title=_title(job) if race is None else race.title,
        state=state_cell(job),
        sentence=words.said(_sentence(job)) if race is None else race.sentence,
        race=race,
        result=await _result_link(api, job),
        progress=progress_cell(job),
        error=_said(job["error"], words),
        warnings=warnings,
        notes=notes,
        facts=_facts(job, dataset_cell(job["dataset_id"], dataset)),
        params=[(name, tables.text(value)) for name, value in job["params"].items()],
        # objectives of the fits of a race are on scales of their own
        curves=[] if job["algorithm"] == AUTOMATIC else curves_of(events),
        grid=grid_of(parts),
        parts=part_table(parts, sum(job["child_jobs"].values())) if parts else None,
        attempts=Table(
            "Attempts",
            ("Attempt", "Outcome", "Worker", "Started", "Duration", "Error"),
            [TableRow(f"attempt-{a['attempt']}", _attempt_cells(a)) for a in job["attempts"]],
            "It has not started yet.",
        ),
        events=Table(
            "Events, newest first",
            ("Event", "Contents", "Time"),
            [TableRow(f"event-{e['id']}", _event_cells(e)) for e in events[::-1][:_SHOWN_EVENTS]],
        ),
        submission=await _submission(api, path),
    )


async def _words_of(
    api: Api, job: Mapping[str, Any], dataset: Mapping[str, Any] | None
) -> GroupWords:
    """Return the words for groups; without the dataset, as after a renewal, those of the model.

    Without a version, as that of a renewal that was not promoted, they are of the latest one.
    """
    if dataset is not None:
        return GroupWords.of(dataset["options"].get("task_column"))
    path, version = f"/v1/models/{segment(job['model'])}", job["version"]
    version_path = path if version is None else f"{path}/versions/{version}"
    model = await api.find(version_path, refused=FORBIDDEN)
    return GroupWords.of((model or {}).get("task_column"))


def _said(error: Mapping[str, Any] | None, words: GroupWords) -> Mapping[str, Any] | None:
    texts = ("detail", "remedy")
    return error and {**error, **{name: words.said(error[name] or "") for name in texts}}


async def _submission(api: Api, path: str) -> ApiExample | None:
    """Return the request that submitted a job; parts, and jobs of earlier versions, have none."""
    try:
        return submission(await api.get(f"{path}/spec"))
    except Refused as error:
        if error.problem["status"] != WRONG_STATE:
            raise
        return None


def _title(job: Mapping[str, Any]) -> str:
    return f"Job for {job['model']}" if job["part"] is None else f"Part of {job['model']}"


async def _result_link(api: Api, job: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the title and the address of the result of a job; None without one."""
    outputs = (job["result"] or {}).get("dataset_id") if job["inference"] is not None else None
    if outputs is not None and await api.find(f"/v1/datasets/{outputs}", refused=FORBIDDEN):
        return "See the outputs", f"/datasets/{outputs}"
    if job["version"] is None or job["inference"] is not None:
        return None
    return "See the result", model_href(job["model"], job["version"])


def _sentence(job: Mapping[str, Any]) -> str:
    what = _what(job)
    children = job["child_jobs"]
    states: dict[str, str] = {
        "waiting": f"{what} runs its parts, {children.get('succeeded', 0)} of "
        f"{sum(children.values())} done; the model is trained once all are.",
        "queued": f"{what} waits for a free worker.",
        "submitted": f"{what} starts.",
        "running": f"{what} is running.",
        "cancelling": f"{what} is being cancelled.",
        "cancelled": f"{what} was cancelled.",
        "timed_out": f"{what} took longer than its limit, {formats.duration(job['timeout_s'])}.",
        "failed": f"{what} failed.",
        "succeeded": f"{what} succeeded. {_result(job)}".rstrip(),
    }
    return states[job["state"]] + _expected(job)


def _expected(job: Mapping[str, Any]) -> str:
    """Return how long a job that has not ended is expected to take, as the end of a sentence."""
    expected = _expected_time(job)
    return "" if job["is_final"] or expected is None else f" Expected: {expected}."


def _what(job: Mapping[str, Any]) -> str:
    """Return the work of a job in words, as the subject of a sentence."""
    if job["inference"] is not None:
        return f"{job['inference']['method']} of {job['model']} / {job['version']}"
    if job["part"] is not None:
        return f"A part of the {job['part']['purpose']}, {name_of(job)},"
    if job["algorithm"] == AUTOMATIC:
        return f"The automatic choice for the model {job['model']}"
    return f"Training of the model {job['model']} with {name_of(job)}"


def _result(job: Mapping[str, Any]) -> str:
    """Return the result of a comparison, an automatic choice or an inference in a sentence."""
    result = job["result"] or {}
    if job["inference"] is not None and result:
        rows, tasks = (
            formats.count(result[n], w) for n, w in (("rows", "row"), ("n_tasks", "task"))
        )
        new = result.get("new_tasks")
        notes = [NewTasksWarning(new) if new else None, UnknownCategoriesWarning.of_result(result)]
        shown = "".join(f" Note: {note}." for note in notes if note is not None)
        return f"It has the outputs for {rows} of {tasks}.{shown}"
    return str(result.get("sentence") or next(iter(result.get("sentences", ())), ""))


def _facts(job: Mapping[str, Any], dataset: Cell) -> list[tuple[str, Cell]]:
    facts = [
        ("Algorithm", tables.algorithm(job["algorithm"])),
        ("Dataset", dataset),
        ("Seed", tables.text(str(job["seed"]))),
        ("Submitted", tables.time(job["created_at"])),
        ("Started", tables.time(job["started_at"])),
        ("Ended", tables.time(job["finished_at"])),
        ("Expected time", tables.text(_expected_time(job))),
        ("Time limit", tables.text(formats.duration(job["timeout_s"]))),
        ("Memory limit", tables.text(formats.size(job["memory_mb"] * 2**20))),
    ]
    model = tables.text(job["model"]) if job["version"] is None else model_cell(job)
    facts.insert(0, ("Model", model))
    outputs = (job["result"] or {}).get("dataset_id") if job["inference"] is not None else None
    if outputs is not None:
        facts.insert(3, ("Dataset of the outputs", tables.code(outputs, f"/datasets/{outputs}")))
    if job["parent_id"] is not None:
        facts.insert(0, ("Part of", tables.code(job["parent_id"], f"/jobs/{job['parent_id']}")))
    # empty facts of an unfinished job may still get a value
    return [fact for fact in facts if fact[1].text != formats.NONE or not job["is_final"]]


def _expected_time(job: Mapping[str, Any]) -> str | None:
    expected_s = job["expected_s"]
    return None if expected_s is None else f"about {describe_duration(expected_s)}"


def _attempt_cells(attempt: Mapping[str, Any]) -> list[Cell]:
    error = attempt["error"]
    return [
        tables.text(str(attempt["attempt"])),
        tables.state(attempt["outcome"]),
        tables.code(attempt["worker"]),
        tables.time(attempt["started_at"]),
        tables.quantity(formats.elapsed(attempt["started_at"], attempt["finished_at"])),
        tables.text(formats.NONE if error is None else error["detail"]),
    ]


def _event_cells(event: Mapping[str, Any]) -> list[Cell]:
    data = {name: value for name, value in event["data"].items() if value is not None}
    return [tables.text(event["kind"]), tables.text(data), tables.time(event["created_at"])]
