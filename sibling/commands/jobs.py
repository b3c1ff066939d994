"""``sibling jobs``: list, watch, cancel and delete jobs, and read their events."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import typer

from sibling import Client, JobFailed, RemoteJob
from sibling.client.environment import DEFAULT_URL
from sibling.commands import names
from sibling.commands.app import noun
from sibling.commands.names import Url, suggesting_id
from sibling.commands.output import (
    format_value,
    print_fields,
    print_json,
    print_list,
    print_note,
    print_result,
    print_text,
)

jobs = noun("Watch jobs, cancel and delete them.")

#: Maximum time that a request for new events waits for the end of the job.
_POLL_S: Final = 1
#: A state of a job as the API shows it.
JobState = Literal[
    "waiting",
    "queued",
    "submitted",
    "running",
    "cancelling",
    "succeeded",
    "failed",
    "cancelled",
    "timed_out",
]
_FIELDS: Final = (
    *("id", "state", "kind", "algorithm", "model", "version", "dataset_id"),
    *("parent_id", "child_jobs"),
    *("params", "seed", "priority", "attempt", "max_attempts", "expected_s", "timeout_s"),
    "memory_mb",
    *("created_at", "started_at", "finished_at"),
)


@jobs.command(name="list")
def list_jobs(
    *,
    state: Annotated[
        JobState | None, typer.Option(help="Only jobs in this state, such as running.")
    ] = None,
    parent_id: Annotated[str | None, typer.Option(help="The child jobs of this job.")] = None,
    owner: Annotated[
        str | None, typer.Option(help="Jobs of this owner, '*' for all: for operators.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List the jobs, newest first."""
    with Client(url) as client:
        listed = client.jobs(state=state, parent_id=parent_id, owner=owner)
        more = () if owner is None else ("owner",)
        print_list(listed, "id", *more, "state", "algorithm", "model", "version", "created_at")


@jobs.command()
def show(job_id: names.Job, url: Url = DEFAULT_URL) -> None:
    """Show a job: its state, parameters, limits and times."""
    with Client(url) as client:
        info = _find(client, job_id).info
    print_fields(info, *_FIELDS)
    if info["error"] is not None:
        print_note(f"error: {info['error']['code']}: {info['error']['detail']}")
    for warning in info["warnings"]:
        print_note(f"warning: {warning}")


@jobs.command()
def watch(job_id: names.Job, url: Url = DEFAULT_URL) -> None:
    """Show the progress of a job until it ends; fail if the job fails."""
    with Client(url) as client:
        job = _find(client, job_id)
        note_expected(job)
        job.wait_for_end(progress=True)
    if job.state != "succeeded":
        print_json(job.info)
        raise JobFailed(job.info)
    print_result(_outcome(job), **job.info)


@jobs.command()
def cancel(job_id: names.Job, url: Url = DEFAULT_URL) -> None:
    """Cancel a job that has not ended."""
    with Client(url) as client:
        job = _find(client, job_id).cancel()
    print_result(f"job {job.id} is {job.state}", **job.info)


@jobs.command()
def finish(job_id: names.Job, url: Url = DEFAULT_URL) -> None:
    """End a running job with auto or ensemble, and keep the best methods so far."""
    with Client(url) as client, suggesting_id(client.jobs, job_id):
        job = client.job(job_id).finish()
    print_result(f"job {job.id} ends with the methods that are scored", **job.info)


@jobs.command()
def logs(
    job_id: names.Job,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for further events until the job ends.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the events of a job: changes of its state, and its progress; JSON has one per line."""
    with Client(url) as client:
        for event in _events(_find(client, job_id), follow=follow):
            if not print_json(event, indent=False):
                data = format_value(event["data"])
                print_text(f"{event['created_at']}  {event['attempt']}  {event['kind']}  {data}")


@jobs.command()
def delete(job_id: names.Job, url: Url = DEFAULT_URL) -> None:
    """Delete a job that has ended, with its child jobs, events and outputs."""
    with Client(url) as client, suggesting_id(client.jobs, job_id):
        client.delete_job(job_id)
    print_result(f"job {job_id} is deleted", id=job_id)


def note_expected(job: RemoteJob) -> None:
    """Print how long a job that has not ended is expected to take, if it is known."""
    if job.expected is not None and not job.info["is_final"]:
        print_note(f"expected: {job.expected}")


def _find(client: Client, job_id: str) -> RemoteJob:
    with suggesting_id(client.jobs, job_id):
        return client.job(job_id)


def _events(job: RemoteJob, *, follow: bool) -> Iterator[dict[str, Any]]:
    """Yield the events so far; to follow, also later ones until the job has ended."""
    last = 0
    while True:
        is_final = job.info["is_final"]
        for event in job.events(after_id=last):
            yield event
            last = event["id"]
        if is_final or not follow:
            return
        job.refresh(wait_s=_POLL_S)


def _outcome(job: RemoteJob) -> str:
    if job.info["version"] is not None and job.info["kind"] == "train":
        return f"model {job.info['model']}, version {job.info['version']}"
    return f"job {job.id} has succeeded"
