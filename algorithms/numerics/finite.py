"""Whether numbers are finite."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def all_finite(values: NDArray[Any]) -> bool:
    """Return whether all numbers of an array are finite.

    Where their sum of squares is, they are, and it takes no array of truth values to know; else
    they may be large, and are looked at one by one.
    """
    # of the products that numpy has, this one does not warn where it overflows
    return math.isfinite(np.vdot(values, values)) or bool(np.isfinite(values).all())
