"""Learning together against learning apart: the best of one family against the best of another.

The best of several methods looks better than it is. So a family is not represented by the method
that came out best; the claim "some method s that learns together is better than *every* method a
that learns each task alone" is tested as such. With one-sided p values p(s > a) of all pairs, for
S methods together and A methods apart,

    p(helps) = S · min_s max_a p(s > a),   p(hurts) = A · min_a max_s p(a > s),

the maximum because every pair must hold (an intersection-union test needs no correction), the
factor because any s will do (Bonferroni). Doubled, the smaller one is the p value of the verdict.
The constant prediction must be beaten as well for "helps", and never makes "hurts".

Choosing the representatives by inner cross-validation would be as honest, and stronger if there are
many methods. It is not done: methods choose by errors of different kinds (leave-one-out, squared
errors, error rates, or not at all), and scoring all in the same way inside every split would
multiply the cost of a comparison by the number of inner folds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from algorithms.evaluation.gains import LEVEL, Gain

Verdict = Literal["helps", "hurts", "equal", "unclear"]

#: Gain of the method at one position over that at another; None where it is not known.
Gains = Callable[[int, int], Gain | None]


@dataclass(frozen=True, slots=True)
class Contest:
    """The best of the methods that learn together against the best of those that learn apart.

    Parameters
    ----------
    together, apart
        Positions of the method most surely better than the other family, and of the method in that
        family that comes nearest to it.
    gain
        Of the one that learns together over the one that learns apart.
    low, high
        Its 95 % interval, corrected for the number of methods that could have been the first.
    p_value
        Two-sided, for the families.
    margin
        Smallest gain worth naming.
    """

    together: int
    apart: int
    gain: float
    low: float
    high: float
    p_value: float
    margin: float


def contest(
    together: Sequence[int],
    apart: Sequence[int],
    gains: Gains,
    *,
    min_effect: float,
    trivial: Sequence[int] = (),
) -> Contest | None:
    """Return the comparison of two families of methods; None where nothing can be compared.

    Parameters
    ----------
    together, apart
        Positions of the methods.
    gains
        Gain of the first method over the second.
    min_effect
        Smallest effect worth naming, as a part of the value of the method that learns apart.
    trivial
        Positions of methods that must be beaten as well.
    """
    if not together or not apart:
        return None
    helps = _best(together, [*apart, *trivial], gains)
    hurts = _best(apart, together, lambda a, s: _negated(gains(s, a)))
    if helps.p_value <= hurts.p_value:
        side, pair = helps, (helps.winner, helps.nearest)
    else:
        side, pair = hurts, (hurts.nearest, hurts.winner)
    found = gains(*pair)
    if found is None:
        return None
    low, high = found.interval(LEVEL / side.n_tests)
    return Contest(
        *pair,
        gain=found.mean,
        low=low,
        high=high,
        p_value=min(1.0, 2 * side.p_value),
        margin=min_effect * abs(found.value),
    )


def verdict_of(found: Contest | None, *, p_value: float | None = None) -> Verdict:
    """Return what a contest says.

    *helps*, *hurts*: the difference is not chance, and at least the smallest worth naming. *equal*:
    it is smaller, or its whole interval is. *unclear*: it cannot be told.

    Parameters
    ----------
    p_value
        In place of its own, where it was corrected for the number of contests.
    """
    if found is None:
        return "unclear"
    if max(abs(found.low), abs(found.high)) <= found.margin:
        return "equal"
    if (found.p_value if p_value is None else p_value) >= LEVEL:
        return "unclear"
    if abs(found.gain) < found.margin:
        return "equal"
    return "helps" if found.gain > 0 else "hurts"


@dataclass(frozen=True, slots=True)
class _Side:
    """The method of a family most surely better than all of another; p one-sided, corrected."""

    winner: int
    nearest: int
    p_value: float
    n_tests: int


def _best(family: Sequence[int], others: Sequence[int], gains: Gains) -> _Side:
    def p_value(one: int) -> float:
        found = [gains(one, other) for other in others]
        return max(1.0 if pair is None else pair.p_greater for pair in found)

    def gain(one: int, other: int) -> float:
        found = gains(one, other)
        return math.inf if found is None else found.mean

    winner = min(family, key=p_value)
    nearest = min(others, key=lambda other: gain(winner, other))
    return _Side(winner, nearest, min(1.0, len(family) * p_value(winner)), len(family))


def _negated(found: Gain | None) -> Gain | None:
    return None if found is None else -found
