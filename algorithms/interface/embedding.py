"""Coordinates that a model has stored for rows of a task."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """Points in the space of a model's ``transform``.

    Parameters
    ----------
    coordinates : (n, k)
    classes : (n,)
        Label of each point; empty without labels.
    points
        What the points are.
    """

    coordinates: NDArray[np.float64]
    classes: tuple[str, ...] | tuple[int, ...]
    points: Literal["training rows", "class means", "labelled rows", "active rows"]
