"""Outputs of a batch inference job."""

from pathlib import Path
from typing import Any

from sibling.client.http import Http, path
from sibling.client.modes import Mode, Remote, remote_method


class RemoteOutputs(Remote[Mode]):
    """Outputs of a batch inference.

    Attributes
    ----------
    info
        The job as returned by the service.
    """

    def __init__(self, http: Http, info: dict[str, Any]) -> None:
        super().__init__(http)
        self.info = info
        self._path = path("v1", "jobs", info["id"], "output")

    @property
    def report(self) -> dict[str, Any]:
        """Result of the job: rows, seconds, rows per second, dataset and file."""
        report: dict[str, Any] = self.info["result"]
        return report

    @property
    def dataset_id(self) -> str | None:
        """Id of the dataset of the outputs, None if the job has created none."""
        dataset_id: str | None = self.report["dataset_id"]
        return dataset_id

    @remote_method
    async def download(self, target: str | Path) -> Path:
        """Write the outputs to a Parquet file with columns task, row and outputs."""
        return await self._http.download(self._path, target)

    @remote_method
    async def delete(self) -> None:
        """Delete the outputs, but not the dataset that was created from them."""
        await self._http.send("DELETE", self._path)
