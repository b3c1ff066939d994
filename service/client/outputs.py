"""What a model made of a whole dataset, from afar."""

from pathlib import Path
from typing import Any

from service.client.http import Http, path


class RemoteOutputs:
    """The outputs of an inference over a dataset.

    Attributes
    ----------
    info
        The job that computed them, as the service tells it.
    """

    def __init__(self, http: Http, info: dict[str, Any]) -> None:
        self._http = http
        self.info = info
        self._path = path("v1", "jobs", info["id"], "output")

    @property
    def report(self) -> dict[str, Any]:
        """What it came to: rows, seconds, rows per second, and each task."""
        report: dict[str, Any] = self.info["result"]
        return report

    @property
    def dataset_id(self) -> str | None:
        """Id of the dataset that was made of them, None where none was."""
        made: str | None = self.report["dataset_id"]
        return made

    def download(self, target: str | Path) -> Path:
        """Write them to a Parquet file: task, row, outputs."""
        target = Path(target)
        self._http.download(self._path, target)
        return target

    def delete(self) -> None:
        """Delete them; a dataset that was made of them stays."""
        self._http.send("DELETE", self._path)
