"""What each column of a table may be for, proposed from its values, its name and its place."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: A group of fewer rows hardly shows how its columns are related.
_MIN_ROWS: Final = 3
#: Fewer groups are proposed only if their name or their order says that they are groups.
_MIN_GROUPS: Final = 3
#: How likely a column is to hold groups by its kind alone; text of many levels has no kind.
_BY_KIND: Final[Mapping[str | None, float]] = {
    None: 0.5,
    "category": 0.5,
    "number": 0.1,
    "date": 0.1,
    "boolean": 0.1,
}
#: Share of rows that follow one of the same group, beyond chance, from which they are in order.
_IN_ORDER: Final = 0.5
_GROUP_NAMES: Final = re.compile(
    r"task|group|hospital|clinic|ward|practice|school|class(room)?|patient|subject|person|"
    r"participant|donor|site|cent(er|re)|stud(y|ent)|lab|cohort|household|family|store|shop|branch|"
    r"market|region|country|state|city|county|district|station|sensor|device|machine|plant|"
    r"farm|field|user|customer|client|company|team|batch|species|domain|cluster",
    re.IGNORECASE,
)
_TARGET_NAMES: Final = frozenset({"target", "y", "label", "outcome", "response", "class"})
_ID_NAME: Final = re.compile(
    r"(^|[\W_])(id|no|nr|number|index|key|code)$|[a-z]I[dD]$", re.IGNORECASE
)
#: A target of more classes is more likely a name.
_MAX_CLASSES: Final = 20
_MAX_MISSING: Final = 0.5


@dataclass(frozen=True, slots=True)
class Division:
    """How the values of a column divide the rows.

    Attributes
    ----------
    n, smallest, largest
        Number of groups, and rows of the smallest and of the largest one.
    score
        How well they suit as groups that are learned together.
    is_likely
        Whether the column is proposed without being asked for.
    """

    n: int
    smallest: int
    largest: int
    score: float
    is_likely: bool


def divide(codes: NDArray[np.intp], name: str, kind: str | None) -> Division | None:
    """Return how a column divides the rows; None if its values do not repeat, or some are missing.

    Parameters
    ----------
    codes : (n_rows,)
        Number of the value of each row; -1 if it is missing.
    """
    if not len(codes) or codes.min() < 0:
        return None
    sizes = np.bincount(codes)
    sizes = sizes[sizes > 0]
    if not 2 <= len(sizes) <= len(codes) / 2:
        return None
    shares = sizes / len(codes)
    by_chance = float((shares**2).sum())
    order = max(0.0, (float((codes[1:] == codes[:-1]).mean()) - by_chance) / (1 - by_chance))
    is_named = _GROUP_NAMES.match(name) is not None
    entropy = -float((shares * np.log2(shares)).sum())
    usable = float(shares[sizes >= _MIN_ROWS].sum())
    is_text = kind in (None, "category")
    is_likely = usable > 0 and (
        order >= _IN_ORDER or is_named or (is_text and len(sizes) >= _MIN_GROUPS)
    )
    score = entropy * usable * (_BY_KIND[kind] + order + is_named)
    return Division(len(sizes), int(sizes.min()), int(sizes.max()), score, is_likely)


def propose(
    columns: Sequence[Mapping[str, Any]], divisions: Mapping[str, Division], given_task: str | None
) -> tuple[str | None, str | None]:
    """Return the columns proposed as groups and as target; None for none.

    Parameters
    ----------
    columns
        In the order of the table, with name, kind, missing, n_distinct and is_id.
    divisions
        How columns divide the rows, the best first.
    given_task
        The column of groups, if it is known.
    """
    likely = (name for name, division in divisions.items() if division.is_likely)
    group = given_task or next(likely, None)
    left = [column for column in columns if column["name"] != group and _may_be_target(column)]
    named = (column for column in left if column["name"].casefold() in _TARGET_NAMES)
    target = next(named, left[-1] if left else None)
    return group, None if target is None else target["name"]


def is_id(name: str, kind: str | None, n_distinct: int, n_rows: int) -> bool:
    """Return whether a column has another value in each row, as a number of the row would have."""
    return n_distinct == n_rows > 1 and kind == "number" and _ID_NAME.search(name) is not None


def _may_be_target(column: Mapping[str, Any]) -> bool:
    if column["is_id"] or column["kind"] in (None, "date") or column["n_distinct"] <= 1:
        return False
    is_class = column["kind"] != "category" or column["n_distinct"] <= _MAX_CLASSES
    return is_class and bool(column["missing"] <= _MAX_MISSING)
