"""Module that Dask preloads into schedulers and workers."""

from typing import Any

from distributed import Worker

from service.jobs.worker.cluster import add_rpcs
from service.jobs.worker.scratch import sweep_scratch
from service.jobs.worker.worker_process import end_workers, scratch_dir
from service.processes.kernels import ensure_compiled
from service.settings import Settings


def dask_setup(server: Any) -> None:
    """Add our RPCs to a scheduler or worker; on a worker, also delete the files of dead workers."""
    add_rpcs(server)
    if isinstance(server, Worker):
        ensure_compiled()
        work_dir = scratch_dir(Settings())
        work_dir.mkdir(parents=True, exist_ok=True)
        sweep_scratch(work_dir)


def dask_teardown(server: Any) -> None:
    """Requeue the running jobs of a worker that shuts down, with their checkpoints."""
    del server
    end_workers()
