"""Jobs of the service: state, progress and result."""

import math
import time
import warnings
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from rich.progress import Progress, TextColumn, TimeRemainingColumn

from algorithms.interface.unknown_categories import UnknownCategoriesWarning
from sibling.client import display
from sibling.client.errors import JobFailed, ServiceUnreachable, json_of
from sibling.client.http import Http, path
from sibling.client.model import RemoteModel
from sibling.client.modes import Listing, Mode, Remote, remote_method
from sibling.client.outputs import RemoteOutputs
from sibling.client.progress import progress_bar

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

    @property
    def progress(self) -> dict[str, Any] | None:
        """Progress of the job as last fetched; None if it has not started.

        While a job with ``auto`` runs, ``race`` has the best method so far of each kind.
        """
        progress: dict[str, Any] | None = self.info["progress"]
        return progress

    @property
    def expected(self) -> str | None:
        """Expected duration of the job, such as "about 4 min"; None if it is unknown."""
        return display.expected_time(self.info)

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
        self.info = json_of(await self._http.send("POST", f"{self._path}:cancel"))
        return self

    @remote_method
    async def delete(self) -> None:
        """Delete the job, which has ended; see :meth:`sibling.Client.delete_job`."""
        await self._http.send("DELETE", self._path)

    def events(self, *, after_id: int = 0) -> Listing[Mode]:
        """Return the events of the job so far, in order.

        Parameters
        ----------
        after_id
            Return only events with a larger id.
        """
        events = f"{self._path}/events"
        return Listing(self._http, lambda: self._http.pages(events, after_id=after_id))

    @remote_method
    async def wait_for_end(
        self,
        *,
        progress: bool = False,
        on_change: Callable[[Job], None] | None = None,
        timeout_s: float | None = None,
    ) -> "RemoteJob[Mode]":
        """Wait until the job has succeeded, failed, timed out or been cancelled.

        Parameters
        ----------
        progress
            Whether to show a progress bar on a terminal or in a notebook.
        on_change
            Function to call with the job each time it is fetched.
        timeout_s
            Maximum time to wait. Default: until the end.

        Raises
        ------
        TimeoutError
            The job has not ended in this time; it goes on.
        """
        await self._wait(progress=progress, on_change=on_change, timeout_s=timeout_s)
        return self

    async def _wait(
        self,
        *,
        progress: bool,
        on_change: Callable[[Job], None] | None,
        timeout_s: float | None,
    ) -> None:
        if not progress:
            await self._poll(on_change, timeout_s)
            return
        with _bar() as bar:
            row = bar.add_task(self.info["model"], total=1.0, note=self.state)

            def show(job: Job) -> None:
                bar.update(row, **_shown(job))
                if on_change is not None:
                    on_change(job)

            await self._poll(show, timeout_s)

    async def _poll(self, on_change: Callable[[Job], None] | None, timeout_s: float | None) -> None:
        """Fetch the job until its end."""
        pause_s = _LONG_POLL_S if on_change is None else _PROGRESS_POLL_S
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        resume = f"client.job('{self.id}').wait()"
        while not self.info["is_final"]:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(
                    f"job {self.id} is {self.state} after {timeout_s:g} s and goes on; wait for "
                    f"it with {resume}, or cancel it"
                )
            try:
                await self._refresh(min(pause_s, left_s))
            except ServiceUnreachable as error:
                goes_on = f"job {self.id} goes on when the service is back: {resume}"
                raise ServiceUnreachable(error.url, error.reason, goes_on) from error
            if on_change is not None:
                on_change(self.info)

    async def _wait_for_success(
        self,
        *,
        progress: bool,
        on_change: Callable[[Job], None] | None,
        timeout_s: float | None,
    ) -> Job:
        """Wait until the job has succeeded, and return it."""
        await self._wait(progress=progress, on_change=on_change, timeout_s=timeout_s)
        if self.state != "succeeded":
            raise JobFailed(self.info)
        return self.info

    async def _refresh(self, wait_s: float) -> None:
        self.info = await self._http.get_final(self._path, wait_s, is_final=itemgetter("is_final"))

    @property
    def _path(self) -> str:
        return path("v1", "jobs", self.id)


class TrainingJob(RemoteJob[Mode]):
    """A job that trains a model."""

    @remote_method
    async def finish(self) -> "TrainingJob[Mode]":
        """End a job with ``auto`` or ``ensemble`` that runs, and keep the best so far.

        The model is made of the methods that are scored, as if the budget were used up.
        """
        self.info = json_of(await self._http.send("POST", f"{self._path}:finish"))
        return self

    @remote_method
    async def spec(self) -> dict[str, Any]:
        """Return the specification of the job as it was submitted, without defaults."""
        spec: dict[str, Any] = await self._http.get(f"{self._path}/spec")
        return spec

    @remote_method
    async def wait(
        self,
        *,
        progress: bool = False,
        on_change: Callable[[Job], None] | None = None,
        timeout_s: float | None = None,
    ) -> RemoteModel[Mode]:
        """Wait for the end of the job, and return the model.

        Parameters
        ----------
        progress
            Whether to show a progress bar on a terminal or in a notebook.
        on_change
            Function to call with the job each time it is fetched.
        timeout_s
            Maximum time to wait. Default: until the end.

        Raises
        ------
        TimeoutError
            The job has not ended in this time; it goes on.
        ServiceUnreachable
            The service has gone; the job goes on when it is back.
        JobFailed
            The job has failed, timed out or been cancelled.
        """
        job = await self._wait_for_success(
            progress=progress, on_change=on_change, timeout_s=timeout_s
        )
        address = path("v1", "models", job["model"], "versions", job["version"])
        return RemoteModel(self._http, await self._http.get(address))


class InferenceJob(RemoteJob[Mode]):
    """A batch inference job: a method of a model applied to a dataset."""

    @remote_method
    async def wait(
        self,
        *,
        progress: bool = False,
        on_change: Callable[[Job], None] | None = None,
        timeout_s: float | None = None,
    ) -> RemoteOutputs[Mode]:
        """Wait for the end of the job, and return its outputs; see :meth:`TrainingJob.wait`.

        A :class:`sibling.UnknownCategoriesWarning` names values of categories that no training row
        has; the report of the outputs has the number of rows.
        """
        job = await self._wait_for_success(
            progress=progress, on_change=on_change, timeout_s=timeout_s
        )
        unknown = UnknownCategoriesWarning.of_result(job["result"])
        if unknown is not None:
            warnings.warn(unknown, stacklevel=2)
        return RemoteOutputs(self._http, job)


def _bar() -> Progress:
    return progress_bar(
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", markup=False),
    )


def _shown(job: Job) -> dict[str, Any]:
    if job["state"] == "succeeded":
        return {"completed": 1.0, "note": "done"}
    progress, expected = job["progress"], display.expected_time(job)
    if progress is None:
        return {"note": job["state"] + ("" if expected is None else f", expected: {expected}")}
    note = f"{progress['loop']}, iteration {progress['iteration']}"
    if progress["objective"] is not None:
        note += f", objective {progress['objective']:.6g}"
    race = progress.get("race")
    if race and race["best"]:
        best = race["best"][0]
        note += f", best so far: {best['algorithm']} with {race['title']} {best['value']:.4g}"
    if expected is not None:
        note += f", expected: {expected}"
    return {"completed": progress["fraction"], "note": note}
