"""Lists of names in sentences."""

from collections.abc import Sequence
from typing import Final

#: Names that most messages list.
MAX_LISTED_NAMES: Final = 20


def list_names(
    names: Sequence[str], n_max: int = MAX_LISTED_NAMES, *, has_quotes: bool = True
) -> str:
    """Return names for a sentence: the first ``n_max``, and how many follow."""
    shown = ", ".join(f"'{name}'" if has_quotes else name for name in names[:n_max])
    return f"{shown} and {len(names) - n_max} more" if len(names) > n_max else shown
