"""Ids of the rows of a request, and what monitors record of it."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from service.inference.call import InferenceResult, Rows, raise_invalid_request
from service.inference.task_column import task_names
from service.models.resolver import ResolvedModel
from service.models.store import ServableVersion
from service.storage.tables import new_id

#: Header of requests, and of responses of models that have a monitor.
ROW_IDS: Final = "sibling-row-ids"
MAX_ID: Final = 200
#: Column of tables with the id of each row.
ROW_ID: Final = "row_id"
#: Ids that are made: of this process, and a number in it; a ULID for each takes longer.
_MADE: Final = new_id("row")
_NUMBERS: Final = itertools.count()


class RowIds(NamedTuple):
    """Ids of the rows of a request.

    Attributes
    ----------
    given
        The id of each row; or ids as a header has them: percent-encoded, with commas between them,
        or one for several rows, whose ids are it with ``-0``, ``-1`` and so on behind it.
    """

    given: str | list[str]
    n_rows: int

    def all(self) -> list[str]:
        """Return the id of each row."""
        if not isinstance(self.given, str):
            return self.given
        ids = [unquote(quoted) for quoted in self.given.split(",")]
        if len(ids) == 1 and self.n_rows != 1:
            return [f"{ids[0]}-{i}" for i in range(self.n_rows)]
        return ids


class MonitoredCall(NamedTuple):
    """A call of a version that has a monitor, with its results."""

    owner: str
    served: ServableVersion
    rows: Rows
    result: InferenceResult
    ids: RowIds
    #: Unix time, in seconds.
    called_at: float


#: Keeps a call for the monitors of its version, without waiting.
Record: TypeAlias = Callable[[MonitoredCall], None]


def monitored_call(
    owner: str,
    resolved: ResolvedModel,
    rows: Rows,
    result: InferenceResult,
    given: str | list[str] | None,
) -> MonitoredCall | None:
    """Return what monitors record of a call; None for other methods, and without a monitor.

    Parameters
    ----------
    given
        Ids in the header of the request, or those of a column; None: they are made.

    Raises
    ------
    Problem
        The ids in the header are not valid.
    """
    n_rows = len(result.outputs)
    if given is None:
        ids = RowIds(f"{_MADE}-{next(_NUMBERS):x}", n_rows)
    elif isinstance(given, str):
        ids = RowIds(given.replace(" ", ""), n_rows)
        _check(ids)
    else:
        ids = RowIds(given, n_rows)
    if not resolved.served.monitors or resolved.method != "predict":
        return None
    return MonitoredCall(owner, resolved.served, rows, result, ids, time.time())


def read_ids(values: Iterable[Any]) -> list[str]:
    """Return the ids in a column of a table.

    Raises
    ------
    Problem
        A row has no id, or one that is not valid.
    """
    ids = task_names(values, ROW_ID, "id")
    for row, name in enumerate(ids):
        if len(name) > MAX_ID or not name.isprintable():
            detail = f"row {row} has the id {name!r:.60}; expected up to {MAX_ID} printable"
            raise_invalid_request("", f"{detail} characters in column '{ROW_ID}'")
    return ids


def read_unique_ids(values: Iterable[Any]) -> list[str]:
    """Return the ids in a column of a table, in which each is of one row.

    Raises
    ------
    Problem
        An id is not valid, or of two rows.
    """
    ids = read_ids(values)
    name, n_rows = max(Counter(ids).items(), key=itemgetter(1), default=("", 0))
    if n_rows > 1:
        detail = f"column '{ROW_ID}' has '{name:.60}' {n_rows} times; give each row an id of its"
        raise_invalid_request("", f"{detail} own")
    return ids


def _check(ids: RowIds) -> None:
    place, names = f"header:{ROW_IDS}", ids.all()
    if len(names) != ids.n_rows:
        detail = f"expected one id for each of {ids.n_rows} rows, or one for all; got {len(names)}"
        raise_invalid_request(place, f"{detail}; encode commas within an id as %2C")
    for row, name in enumerate(names):
        if not name or len(name) > MAX_ID or not name.isprintable():
            detail = f"row {row} has the id {name!r:.60}; expected 1 to {MAX_ID} printable"
            raise_invalid_request(place, f"{detail} characters")
    if len(set(names)) < len(names):
        raise_invalid_request(place, "two rows have the same id; give each row its own")
