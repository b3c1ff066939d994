"""Whole numbers by what was called, in memory that processes share where several serve."""

import json
import os
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Owner, model, version, method.
Key = tuple[str, str, int, str]
Row = NDArray[np.int64]
#: Keys that are remembered; the longest unused leaves first.
_MOST: Final = 4096


class Counts:
    """A row of numbers for each key, zero at first.

    Each process writes its own, and where several serve, in a file that the others read. What one
    has counted that has ended meanwhile stays.

    Parameters
    ----------
    width
        Of a row.
    folder
        Of the files; None: this process is alone.
    """

    def __init__(self, width: int, folder: Path | None) -> None:
        self._shape = (_MOST, width)
        self._folder = folder
        self._name = f"{os.getpid()}-{time.time_ns()}.calls"
        # pages that nobody has written to take no memory
        self._rows = np.zeros(self._shape, np.int64) if folder is None else self._open(folder)
        self._places: OrderedDict[Key, int] = OrderedDict()

    def own(self, key: Key) -> Row:
        """Give the row of this process; not called twice at the same time."""
        place = self._places.get(key)
        if place is None:
            is_full = len(self._places) == _MOST
            place = self._places.popitem(last=False)[1] if is_full else len(self._places)
            self._rows[place] = 0
            self._places[key] = place
            self._tell()
        self._places.move_to_end(key)
        row: Row = self._rows[place]
        return row

    def all(self) -> dict[Key, list[Row]]:
        """Give the rows of all processes."""
        found = {key: [self._rows[place]] for key, place in list(self._places.items())}
        for key, row in self._of_others():
            found.setdefault(key, []).append(row)
        return found

    def _open(self, folder: Path) -> NDArray[np.int64]:
        file = np.memmap(folder / self._name, np.int64, "w+", shape=self._shape)
        rows: NDArray[np.int64] = file.view(np.ndarray)  # of which a row is made in less time
        return rows

    def _tell(self) -> None:
        """Tell the others which row is whose."""
        if self._folder is not None:
            told = self._folder / f"{self._name}.json"
            draft = told.with_suffix(".draft")
            draft.write_text(json.dumps(list(self._places.items())))
            draft.replace(told)

    def _of_others(self) -> Iterator[tuple[Key, Row]]:
        if self._folder is None:
            return
        for told in self._folder.glob("*.calls.json"):
            path = told.with_suffix("")
            if path.name != self._name:
                rows = np.asarray(np.memmap(path, np.int64, "r", shape=self._shape))
                for (owner, name, version, method), place in json.loads(told.read_text()):
                    yield (owner, name, version, method), rows[place]
