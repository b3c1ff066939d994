"""The functions θ of output-kernel learning, as the compiled kernels take them."""

from typing import Final

import numpy as np

from algorithms.numerics.arrays import Array

#: The function θ: its kind, its power, the scale s or ν of its argument, its factor.
Rule = tuple[int, int, float, float]

#: Kinds of θ.
FIXED: Final = 0
POWER: Final = 1
EXP: Final = 2
COSH: Final = 3
#: Arguments of exp and cosh are clipped to this, because the search tries points far out. No step
#: ends there: each step increases the dual, and at this value the penalty far exceeds all gains.
MAX_ARGUMENT: Final = 600.0


def thetas(rule: Rule, g: Array) -> Array:
    """Return θ(g) entry by entry; infinity on overflow."""
    z = rule[2] * g
    with np.errstate(over="ignore"):
        if rule[0] == POWER:
            return np.asarray(z ** rule[1])
        return np.asarray(rule[3] * (np.exp(z) if rule[0] == EXP else np.sinh(z)))
