"""Module that Dask preloads into schedulers and workers."""

from typing import Any

from service.jobs.worker.attempt import end_workers
from service.jobs.worker.cluster import add_rpcs


def dask_setup(server: Any) -> None:
    """Add our RPCs to a scheduler or worker."""
    add_rpcs(server)


def dask_teardown(server: Any) -> None:
    """Requeue the running jobs of a worker that shuts down, with their checkpoints."""
    del server
    end_workers()
