"""The relative duality gap, or infinity where primal and dual value prove nothing."""

import math

#: What rounding explains: a primal value below the dual one by this part of it.
ROUNDING = 1e-9


def relative_gap(primal: float, gap: float, *, rounding: float = ROUNDING) -> float:
    """Return the gap as a part of the primal value of a problem whose optimum is never negative.

    Infinity where the two are no certificate: a value that is not finite, a primal value below the
    dual one by more than rounding, a negative one, or one of 0 with a gap. 0 where both are 0.

    Parameters
    ----------
    primal
        Value at a feasible point.
    gap
        Primal less dual value.
    rounding
        Error of the gap as a part of the primal value.
    """
    if not (math.isfinite(primal) and math.isfinite(gap)) or primal < 0.0:
        return math.inf
    if gap < -rounding * primal or (primal == 0.0 and gap > 0.0):
        return math.inf
    return max(gap, 0.0) / primal if primal > 0.0 else 0.0
