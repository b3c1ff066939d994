"""Plugin of Dask's workers."""

from typing import Final

from distributed import Worker, WorkerPlugin

from service.jobs.worker.attempt import prepare_worker


class PrepareWorker(WorkerPlugin):  # type: ignore[misc] # Dask has no types
    """Prepares each worker of the embedded pool, also one that Dask has restarted."""

    name: Final = "sibling-prepare"

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    def setup(self, worker: Worker) -> None:
        """Remove files of dead workers, and start the child process before the first job."""
        del worker
        prepare_worker(self._database_url)
