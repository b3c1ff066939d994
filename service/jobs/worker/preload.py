"""Module that Dask preloads into schedulers and workers."""

from importlib.metadata import version
from typing import Any

from service.jobs.worker.attempt import end_workers


def dask_setup(server: Any) -> None:
    """Add an RPC that returns the version of this package."""
    server.handlers["sibling_version"] = _version


def dask_teardown(server: Any) -> None:
    """Requeue the running jobs of a worker that shuts down, with their checkpoints."""
    del server
    end_workers()


def _version() -> str:
    return version("sibling")
