"""The relative duality gap."""

import math

#: Relative amount by which rounding errors may put the primal value below the dual value.
ROUNDING = 1e-9


def relative_gap(primal: float, gap: float, *, rounding: float = ROUNDING) -> float:
    """Return the duality gap relative to the primal value, for a minimum that is never negative.

    It is infinite if the values certify nothing: one is not finite, the primal value is negative or
    below the dual one by more than rounding errors, or it is 0 with a positive gap. It is 0 if both
    are 0.

    Parameters
    ----------
    primal
        Value at a feasible point.
    gap
        Primal value minus dual value.
    rounding
        Rounding error of the gap, relative to the primal value.
    """
    if not (math.isfinite(primal) and math.isfinite(gap)) or primal < 0.0:
        return math.inf
    if gap < -rounding * primal or (primal == 0.0 and gap > 0.0):
        return math.inf
    return max(gap, 0.0) / primal if primal > 0.0 else 0.0
