"""Jobs of the service: state, progress and result."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sibling.client import display
from sibling.client.errors import JobFailed
from sibling.client.http import Http, path
from sibling.client.model import RemoteModel
from sibling.client.modes import Listing, Mode, Remote, remote_method
from sibling.client.outputs import RemoteOutputs

_LONG_POLL_S: Final = 20
_PROGRESS_POLL_S: Final = 0.25

Job = dict[str, Any]


class RemoteJob(Remote[Mode]):
    """A submitted job.

    Attributes
    ----------
    info
        The job as last fetched.
    """

    def __init__(self, http: Http, info: Job) -> None:
        super().__init__(http)
        self.info = info

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, state={self.state!r})"

    def _repr_html_(self) -> str:
        return display.job_html(self.info)

    @property
    def id(self) -> str:
        """Id of the job."""
        return str(self.info["id"])

    @property
    def state(self) -> str:
        """State of the job as last fetched."""
        return str(self.info["state"])

    @remote_method
    async def refresh(self, *, wait_s: float = 0) -> "RemoteJob[Mode]":
        """Fetch the job again.

        Parameters
        ----------
        wait_s
            Maximum time to wait for the end of the job.
        """
        await self._refresh(wait_s)
        return self

    @remote_method
    async def cancel(self) -> "RemoteJob[Mode]":
        """Request cancellation of the job."""
        self.info = (await self._http.send("POST", f"{self._path}:cancel")).json()
        return self

    @remote_method
    async def delete(self) -> None:
        """Delete the job, which has ended; see :meth:`sibling.Client.delete_job`."""
        await self._http.send("DELETE", self._path)

    def events(self, *, after: int = 0) -> Listing[Mode]:
        """Return the events of the job so far, in order.

        Parameters
        ----------
        after
            Return only events with a larger id.
        """
        return Listing(self._http, lambda: self._events(after))

    @remote_method
    async def wait_for_end(
        self, *, progress: bool = False, on_change: Callable[[Job], None] | None = None
    ) -> "RemoteJob[Mode]":
        """Wait until the job has succeeded, failed, timed out or been cancelled.

        Parameters
        ----------
        progress
            Whether to show a progress bar on a terminal or in a notebook.
        on_change
            Function to call with the job each time it is fetched.
        """
        await self._wait(progress=progress, on_change=on_change)
        return self

    async def _wait(self, *, progress: bool, on_change: Callable[[Job], None] | None) -> None:
        if not progress:
            while not self.info["is_final"]:
                await self._refresh(_LONG_POLL_S if on_change is None else _PROGRESS_POLL_S)
                if on_change is not None:
                    on_change(self.info)
            return
        with _bar() as bar:
            row = bar.add_task(self.info["model"], total=1.0, note=self.state)

            def show(job: Job) -> None:
                bar.update(row, **_shown(job))
                if on_change is not None:
                    on_change(job)

            await self._wait(progress=False, on_change=show)

    async def _wait_for_success(
        self, *, progress: bool, on_change: Callable[[Job], None] | None
    ) -> Job:
        """Wait until the job has succeeded, and return it."""
        await self._wait(progress=progress, on_change=on_change)
        if self.state != "succeeded":
            raise JobFailed(self.info)
        return self.info

    async def _refresh(self, wait_s: float) -> None:
        self.info = await self._http.get(self._path, wait=wait_s)

    async def _events(self, after: int | None) -> AsyncIterator[dict[str, Any]]:
        while after is not None:
            body = await self._http.get(f"{self._path}/events", after=after)
            for event in body["items"]:
                yield event
            after = body["next_after"]

    @property
    def _path(self) -> str:
        return path("v1", "jobs", self.id)


class TrainingJob(RemoteJob[Mode]):
    """A job that trains a model."""

    @remote_method
    async def wait(
        self, *, progress: bool = False, on_change: Callable[[Job], None] | None = None
    ) -> RemoteModel[Mode]:
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
        job = await self._wait_for_success(progress=progress, on_change=on_change)
        address = path("v1", "models", job["model"], "versions", job["version"])
        return RemoteModel(self._http, await self._http.get(address))


class InferenceJob(RemoteJob[Mode]):
    """A batch inference job: a method of a model applied to a dataset."""

    @remote_method
    async def wait(
        self, *, progress: bool = False, on_change: Callable[[Job], None] | None = None
    ) -> RemoteOutputs[Mode]:
        """Wait for the end of the job, and return its outputs; see :meth:`TrainingJob.wait`."""
        return RemoteOutputs(
            self._http, await self._wait_for_success(progress=progress, on_change=on_change)
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
