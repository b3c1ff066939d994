"""Class labels of a stored dataset, read without its rows."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from service.datasets.canonical import DTYPES, HEADER_LENGTH_BYTES
from service.storage.blob_rows import read_range


def read_labels(
    session: Session, blob_id: str, manifest: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Return the labels of every row of each task; tasks without classes are left out.

    Parameters
    ----------
    blob_id
        Content of the dataset.
    """
    wanted = [entry for entry in manifest["tasks"] if "classes" in entry]
    if not wanted:
        return {}
    start = HEADER_LENGTH_BYTES
    start += int.from_bytes(read_range(session, blob_id, 0, start), "little")
    header = json.loads(read_range(session, blob_id, HEADER_LENGTH_BYTES, start))
    labels = {}
    for entry in wanted:
        spec = header[f"{entry['name']}/y"]
        first, end = spec["data_offsets"]
        data = read_range(session, blob_id, start + first, start + end)
        codes = np.frombuffer(data, DTYPES[spec["dtype"]])
        labels[entry["name"]] = np.array(entry["classes"])[codes]
    return labels
