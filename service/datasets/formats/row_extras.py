"""Groups and weights of rows."""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray


class TaskOptions(TypedDict):
    """Arguments of the constructors of a task."""

    groups: NDArray[Any] | None
    weights: NDArray[Any] | None


@dataclass(frozen=True, slots=True, eq=False)
class RowExtras:
    """Groups and weights of rows, (n_rows,) each; None without."""

    groups: NDArray[Any] | None = None
    weights: NDArray[Any] | None = None

    def take(self, rows: slice | NDArray[np.intp] | None) -> "RowExtras":
        """Return the groups and weights of some rows; of all rows for None."""
        if rows is None:
            return self
        return RowExtras(*(None if array is None else array[rows] for array in self._arrays()))

    def options(self) -> TaskOptions:
        """Return the groups and weights as arguments of the constructors of a task."""
        return {"groups": self.groups, "weights": self.weights}

    def _arrays(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        return self.groups, self.weights


#: Rows without groups and weights.
NO_EXTRAS = RowExtras()
