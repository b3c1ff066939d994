"""Interface of the pool that the dispatcher submits to."""

from collections.abc import Callable
from typing import Any, Protocol


class WorkerPool(Protocol):
    """A pool that runs attempts in other processes."""

    @property
    def is_own(self) -> bool:
        """Whether the pool ends with this process."""

    def free_slots(self) -> list[str]:
        """Return the address of a responding worker for each job that the pool can start now.

        Raises
        ------
        OSError
            The scheduler is not reachable.
        """

    def silent_workers(self) -> tuple[list[str], int]:
        """Return the addresses of the workers that do not respond, and the number of workers.

        Raises
        ------
        OSError
            The scheduler is not connected, or does not answer within a second.
        """

    def submit(self, job_id: str, attempt: int, *, worker: str, on_done: Callable[[], None]) -> Any:
        """Submit an attempt to a worker; return a future that ends with it or with its process.

        Parameters
        ----------
        worker
            Address from :meth:`free_slots`; another worker takes over if this one has left.
        on_done
            Called once the attempt has ended.
        """

    def failure(self, future: Any) -> str | None:
        """Return the error that an attempt raised; None without one, or if its process died."""

    def is_closed(self) -> bool:
        """Return whether the connection to the scheduler has ended for good."""

    def close(self) -> None:
        """Disconnect, and stop the pool if it belongs to this process."""
