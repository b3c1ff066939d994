"""What rows have besides features, a task and a target."""

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
        """Return those of some rows; of all for None."""
        if rows is None:
            return self
        return RowExtras(*(None if array is None else array[rows] for array in self._arrays()))

    def options(self) -> TaskOptions:
        """Return them as arguments of the constructors of a task."""
        return {"groups": self.groups, "weights": self.weights}

    def _arrays(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        return self.groups, self.weights


#: Of rows without groups and weights.
NO_EXTRAS = RowExtras()
