"""A dataset that is ready, for checks of jobs: its row and its manifest."""

import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from service.datasets.canonical import DTYPES, HEADER_LENGTH_BYTES
from service.datasets.store import describe_missing, describe_unready
from service.errors.problems import Problem
from service.errors.validation import entry_at
from service.storage.blob_rows import read_range
from service.storage.dataset_states import DatasetState
from service.storage.tables import DatasetRow


@dataclass(frozen=True, slots=True)
class DatasetView:
    """A dataset that was read once, at the beginning of a check.

    Attributes
    ----------
    manifest
        Manifest of the row, which is not None.
    """

    row: DatasetRow
    manifest: dict[str, Any]

    @classmethod
    def find(cls, session: Session, dataset_id: str, *, owner: str) -> Self:
        """Return a dataset that is ready.

        Raises
        ------
        Problem
            The dataset does not exist, belongs to another owner, or is not ready.
        """
        row = session.get(DatasetRow, dataset_id)
        if row is None or row.owner != owner:
            detail = describe_missing(dataset_id)
            raise Problem("not-found", detail, errors=[entry_at("/dataset_id", detail)])
        if row.state != DatasetState.READY or row.manifest is None:
            raise Problem("wrong-state", describe_unready(row))
        return cls(row, row.manifest)

    @property
    def target_name(self) -> str | None:
        """Name of the numeric target; None without one, or for classes."""
        names = self.row.options.get("target_column") or ()
        is_number = any(entry["target"] == "numbers" for entry in self.manifest["tasks"])
        if not names or not is_number:
            return None
        return str(names[0]) if len(names) == 1 else "each target"

    def read_labels(self, session: Session) -> dict[str, NDArray[Any]]:
        """Return the labels of every row of each task; tasks without classes are left out.

        The rows themselves are not read.
        """
        blob_id = self.row.content_blob_id
        assert blob_id is not None  # it is ready
        entries = [entry for entry in self.manifest["tasks"] if "classes" in entry]
        if not entries:
            return {}
        start = HEADER_LENGTH_BYTES
        start += int.from_bytes(read_range(session, blob_id, 0, start), "little")
        header = json.loads(read_range(session, blob_id, HEADER_LENGTH_BYTES, start))
        labels = {}
        for entry in entries:
            spec = header[f"{entry['name']}/y"]
            first, end = spec["data_offsets"]
            data = read_range(session, blob_id, start + first, start + end)
            codes = np.frombuffer(data, DTYPES[spec["dtype"]])
            labels[entry["name"]] = np.array(entry["classes"])[codes]
        return labels
