"""Tables of jobs, and the list of all jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from service.storage.job_states import JobState, ShownJobState
from service.ui import formats, tables
from service.ui.api import Api, in_utc
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.lists import (
    PAGE_SIZE,
    ListFilter,
    ListView,
    algorithm_names,
    dataset_filter,
    dates,
    list_view,
    model_href,
    only,
    owner_filter,
    titled,
)

COLUMNS: Final = ("Job", "State", "Progress", "Algorithm", "Model", "Submitted")


def job_rows(items: Sequence[Mapping[str, Any]], *, has_owners: bool = False) -> list[TableRow]:
    """Return the rows of a table of jobs.

    Parameters
    ----------
    has_owners
        Whether the last cell is the owner.
    """
    rows = []
    for job in items:
        owner = [tables.text(job["owner"])] if has_owners else []
        cells = [*_cells(job, _version_cell(job)), *owner]
        rows.append(TableRow(job["id"], cells, f"/v1/jobs/{job['id']}"))
    return rows


def table_without_models(
    caption: str, items: Sequence[Mapping[str, Any]], progress: str = "Progress"
) -> Table:
    """Return a table of jobs that have no model, or none yet.

    Parameters
    ----------
    progress
        Title of the column with the progress, or with the errors of jobs that failed.
    """
    columns = ("Job", "State", progress, "Algorithm", "Submitted")
    return Table(caption, columns, [TableRow(job["id"], _cells(job)) for job in items])


def _cells(job: Mapping[str, Any], *model: Cell) -> list[Cell]:
    return [
        tables.text(job["model"], f"/jobs/{job['id']}", note=job["id"]),
        state_cell(job),
        progress_cell(job),
        tables.algorithm(job["algorithm"]),
        *model,
        tables.time(job["created_at"]),
    ]


def _version_cell(job: Mapping[str, Any]) -> Cell:
    """Return the version of the model, whose name stands in the first column."""
    cell = model_cell(job)
    return cell if job["version"] is None else replace(cell, text=f"version {job['version']}")


def state_cell(job: Mapping[str, Any]) -> Cell:
    """Return the state of a job; it counts as running while its parts run."""
    is_waiting = job["state"] == JobState.WAITING
    return (
        Cell("running parts", "state", value="running")
        if is_waiting
        else tables.state(job["state"])
    )


def model_cell(job: Mapping[str, Any]) -> Cell:
    """Return the model version of a job; an empty cell if it has none yet."""
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


async def jobs_view(api: Api, query: Mapping[str, str], scopes: Sequence[str]) -> ListView:
    """Return a page of jobs.

    Parameters
    ----------
    scopes
        Scopes of the caller.
    """
    filters = only(query, "state", "algorithm", "dataset_id", "parent_id", "owner")
    page = await api.get("/v1/jobs", page_size=PAGE_SIZE, total="true", **in_utc(filters))
    names = await algorithm_names(api)
    empty = "No job matches." if filters else "No job has been submitted yet."
    has_owners = "owner" in filters
    columns = (*COLUMNS, "Owner") if has_owners else COLUMNS
    return list_view(
        "/jobs",
        "Jobs",
        "Training and batch inference.",
        Table("Jobs", columns, job_rows(page["items"], has_owners=has_owners), empty),
        query=filters,
        page=page,
        noun="job",
        choices=[
            ListFilter("state", "State", titled(ShownJobState), filters.get("state", "")),
            ListFilter("algorithm", "Algorithm", titled(names), filters.get("algorithm", "")),
            *await dataset_filter(api, filters),
            *await owner_filter(api, filters, scopes),
            *dates(filters),
        ],
        orders=("model", "state", "", "algorithm", "", "-created_at", *([""] * has_owners)),
        scope="jobs:write",
        can_cancel=True,
    )
