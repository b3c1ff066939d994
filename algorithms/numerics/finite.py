"""Fast check that all numbers of an array are finite."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def all_finite(values: NDArray[Any]) -> bool:
    """Return whether all numbers of an array are finite.

    If the sum of squares is finite, so are the numbers, and no boolean array is needed. Otherwise
    the squares may have overflowed, so each number is checked.
    """
    # unlike other products of numpy, vdot does not warn on overflow
    return math.isfinite(np.vdot(values, values)) or bool(np.isfinite(values).all())
