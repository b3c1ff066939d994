"""A monitor of an alias: rows that are kept, their targets, and how the model does now."""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

from numpy.typing import ArrayLike

from sibling.client.bodies import as_json, records_body
from sibling.client.datasets import Dataset, media_type_of
from sibling.client.http import Http, path
from sibling.client.modes import Mode, Remote, remote_method
from sibling.frames import is_records, rows_table, table_bytes

_ARROW: Final = "application/vnd.apache.arrow.stream"


def split_alias(reference: str) -> tuple[str, str]:
    """Return the model and the alias in NAME@ALIAS.

    Raises
    ------
    ValueError
        The reference has another form.
    """
    name, _, alias = reference.partition("@")
    if not name or not alias:
        raise ValueError(f"expected NAME@ALIAS, such as sales@production, got '{reference}'")
    return name, alias


class RemoteMonitor(Remote[Mode]):
    """A monitor of an alias in the service.

    Attributes
    ----------
    info
        What it keeps, and how many rows and targets there are, as of its last request.
    """

    def __init__(self, http: Http, info: dict[str, Any]) -> None:
        super().__init__(http)
        self.info = info
        self._path = monitor_path(info["model"], info["alias"])

    def __repr__(self) -> str:
        return f"RemoteMonitor('{self.info['model']}@{self.info['alias']}')"

    @remote_method
    async def feedback(self, targets: ArrayLike | str | Path | Dataset) -> dict[str, Any]:
        """Send the true targets of rows when they are known, and return what became of them.

        Late, repeated and corrected targets are normal.

        Parameters
        ----------
        targets
            Records, a data frame or the path of a file, with columns ``row_id`` and ``target`` (or
            its name in the training table); or a dataset. Rows that were never predicted have their
            task and the columns of the model, too, and are predicted now. Without ``row_id`` all
            rows are such, and one that is sent again counts once.
        """
        headers = {"Content-Type": "application/json"}
        if isinstance(targets, Dataset):
            body = json.dumps({"dataset_id": targets.id}).encode()
        elif isinstance(targets, str | PathLike):
            file = Path(targets)
            body, headers = file.read_bytes(), {"Content-Type": media_type_of(file)}
        elif is_records(targets):
            body = json.dumps(records_body(targets, None), default=as_json).encode()
        else:
            body = table_bytes(rows_table(targets, of="feedback"))
            headers = {"Content-Type": _ARROW}
        response = await self._http.send(
            "POST", f"{self._path}/feedback", content=body, headers=headers
        )
        answer: dict[str, Any] = response.json()
        return answer

    @remote_method
    async def report(self, version: int | None = None) -> dict[str, Any]:
        """Return how the version of the alias, or another one, does now."""
        query = {} if version is None else {"version": version}
        report: dict[str, Any] = await self._http.get(f"{self._path}/report", **query)
        return report

    @remote_method
    async def refresh(self) -> dict[str, Any]:
        """Return what the monitor keeps now, which is :attr:`info` from then on."""
        self.info = await self._http.get(self._path)
        return self.info

    @remote_method
    async def delete_rows(self, prefix: str) -> int:
        """Delete the rows whose ids begin with a text, such as those of one person."""
        response = await self._http.send(
            "DELETE", f"{self._path}/rows", params={"row_id_prefix": prefix}
        )
        return int(response.json()["n_deleted"])

    @remote_method
    async def delete(self) -> None:
        """End the record, and delete its rows and targets."""
        await self._http.send("DELETE", self._path)


class MonitorMethods(Remote[Mode]):
    """Methods of the client for monitors."""

    @remote_method
    async def monitor(self, reference: str) -> RemoteMonitor[Mode]:
        """Return the monitor of an alias, given as NAME@ALIAS.

        Raises
        ------
        ServiceError
            The alias has none (``not-found``).
        """
        info: dict[str, Any] = await self._http.get(monitor_path(*split_alias(reference)))
        return RemoteMonitor(self._http, info)

    @remote_method
    async def set_monitor(
        self,
        reference: str,
        *,
        share: float = 1.0,
        days: int = 90,
        never_keep: Sequence[str] = (),
    ) -> RemoteMonitor[Mode]:
        """Keep rows that the version of an alias predicts; create or change its monitor.

        Parameters
        ----------
        reference
            NAME@ALIAS.
        share
            Share of the rows to keep, chosen by a hash of their ids.
        days
            Days after which rows and targets are deleted.
        never_keep
            Columns whose values are never kept.
        """
        spec = {"share": share, "days": days, "never_keep": list(never_keep)}
        response = await self._http.send("PUT", monitor_path(*split_alias(reference)), json=spec)
        return RemoteMonitor(self._http, response.json())


def monitor_path(name: str, alias: str) -> str:
    """Return the path of the monitor of an alias."""
    return path("v1", "models", name, "aliases", alias, "monitor")
