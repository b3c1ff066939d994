"""Jobs of the service: state, progress and result."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sibling.client.errors import JobFailed
from sibling.client.http import Http, path
from sibling.client.model import RemoteModel
from sibling.client.outputs import RemoteOutputs

_LONG_POLL_S: Final = 20
_PROGRESS_POLL_S: Final = 0.25

Job = dict[str, Any]


class RemoteJob:
    """A submitted job.

    Attributes
    ----------
    info
        The job as last fetched.
    """

    def __init__(self, http: Http, info: Job) -> None:
        self._http = http
        self.info = info

    @property
    def id(self) -> str:
        """Id of the job."""
        return str(self.info["id"])

    @property
    def state(self) -> str:
        """State of the job as last fetched."""
        return str(self.info["state"])

    def refresh(self, *, wait_s: float = 0) -> Self:
        """Fetch the job again.

        Parameters
        ----------
        wait_s
            Maximum time to wait for the end of the job.
        """
        self.info = self._http.send(
            "GET", path("v1", "jobs", self.id), params={"wait": wait_s}
        ).json()
        return self

    def cancel(self) -> Self:
        """Request cancellation of the job."""
        self.info = self._http.send("POST", path("v1", "jobs", self.id) + ":cancel").json()
        return self

    def delete(self) -> None:
        """Delete the job, which has ended; see :meth:`sibling.client.Client.delete_job`."""
        self._http.send("DELETE", path("v1", "jobs", self.id))

    def events(self, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of the job so far, in order.

        Parameters
        ----------
        after
            Yield only events with a larger id.
        """
        address = path("v1", "jobs", self.id, "events")
        while True:
            body = self._http.send("GET", address, params={"after": after}).json()
            yield from body["items"]
            if body["next_after"] is None:
                return
            after = body["next_after"]

    def wait_for_end(
        self, *, progress: bool = False, on_change: Callable[[Job], None] | None = None
    ) -> Self:
        """Wait until the job has succeeded, failed, timed out or been cancelled.

        Parameters
        ----------
        progress
            Whether to show a progress bar on a terminal or in a notebook.
        on_change
            Function to call with the job each time it is fetched.
        """
        if progress:
            with _bar() as bar:
                row = bar.add_task(self.info["model"], total=1.0, note=self.state)
                return self.wait_for_end(on_change=lambda job: bar.update(row, **_shown(job)))
        while not self.info["is_final"]:
            self.refresh(wait_s=_LONG_POLL_S if on_change is None else _PROGRESS_POLL_S)
            if on_change is not None:
                on_change(self.info)
        return self

    def _wait_for_success(self, *, progress: bool, on_change: Callable[[Job], None] | None) -> Job:
        """Wait until the job has succeeded, and return it."""
        self.wait_for_end(progress=progress, on_change=on_change)
        if self.state != "succeeded":
            raise JobFailed(self.info)
        return self.info


class TrainingJob(RemoteJob):
    """A job that trains a model."""

    def wait(
        self, *, progress: bool = False, on_change: Callable[[Job], None] | None = None
    ) -> RemoteModel:
        """Wait for the end of the job, and return the model.

        Parameters
        ----------
        progress
            Whether to show a progress bar on a terminal or in a notebook.
        on_change
            Function to call with the job each time it is fetched.

        Raises
        ------
        JobFailed
            The job has failed, timed out or been cancelled.
        """
        job = self._wait_for_success(progress=progress, on_change=on_change)
        address = path("v1", "models", job["model"], "versions", job["version"])
        return RemoteModel(self._http, self._http.send("GET", address).json())


class InferenceJob(RemoteJob):
    """A batch inference job: a method of a model applied to a dataset."""

    def wait(
        self, *, progress: bool = False, on_change: Callable[[Job], None] | None = None
    ) -> RemoteOutputs:
        """Wait for the end of the job, and return its outputs; see :meth:`TrainingJob.wait`."""
        return RemoteOutputs(
            self._http, self._wait_for_success(progress=progress, on_change=on_change)
        )


def _bar() -> Progress:
    # standard output may be read by a program
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description:<12}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        disable=not (console.is_terminal or console.is_jupyter),
    )


def _shown(job: Job) -> dict[str, Any]:
    if job["state"] == "succeeded":
        return {"completed": 1.0, "note": "done"}
    progress = job["progress"]
    if progress is None:
        return {"note": job["state"]}
    note = f"{progress['loop']}, iteration {progress['iteration']}"
    if progress["objective"] is not None:
        note += f", objective {progress['objective']:.6g}"
    return {"completed": progress["fraction"], "note": note}
