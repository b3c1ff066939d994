"""What Dask loads into schedulers and workers before they begin."""

from importlib.metadata import version
from typing import Any

from service.jobs.worker.attempt import end_workers


def dask_setup(server: Any) -> None:
    """Have a scheduler tell which version of the code it runs beside."""
    server.handlers["sibling_version"] = _version


def dask_teardown(server: Any) -> None:
    """Have what runs on a worker that ends go back to the queue, with its checkpoint."""
    del server
    end_workers()


def _version() -> str:
    return version("sibling")
