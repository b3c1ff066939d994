"""Test whether learning together is better than learning each task alone.

The score of the best of several methods is biased upwards. So no family of methods is represented
by its best member. The tested claim is "some method s that learns together is better than *every*
method a that learns each task alone". With one-sided p values p(s > a) of all pairs, for S methods
that learn together and A methods that learn each task alone,

    p(helps) = S · min_s max_a p(s > a),   p(hurts) = A · min_a max_s p(a > s),

with a maximum because every pair must hold (an intersection-union test needs no correction), and
a factor because one s suffices (Bonferroni). The smaller one, doubled, is the p value of the
verdict. "helps" also requires a gain over the constant prediction; "hurts" ignores it.

Rejected: to select the representatives by inner cross-validation. It would have more power with
many methods. But methods choose parameters by different losses, or not at all, and scoring them in
the same way inside every split would multiply the cost by the number of inner folds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from algorithms.evaluation.scores.gains import LEVEL, Gain

Verdict = Literal["helps", "hurts", "equal", "unclear", "none"]

#: Return the gain of the method at one position over that at another; None if it is unknown.
GainFunction = Callable[[int, int], Gain | None]


@dataclass(frozen=True, slots=True)
class GainTest:
    """The test of a gain.

    Parameters
    ----------
    low, high
        Ends of the 95 % interval.
    p_value
        Two-sided.
    margin
        Smallest relevant gain.
    """

    gain: float
    low: float
    high: float
    p_value: float
    margin: float


@dataclass(frozen=True, slots=True)
class FamilyComparison(GainTest):
    """The test of multi-task methods ("together") against single-task methods ("apart").

    The interval is corrected for the number of methods in the first one's family.

    Parameters
    ----------
    together, apart
        Positions of the two decisive methods: the one with the smallest p value against the other
        family, and the closest method of that family.
    """

    together: int
    apart: int


def compare_families(
    together: Sequence[int],
    apart: Sequence[int],
    gains: GainFunction,
    *,
    min_effect: float,
    trivial: Sequence[int] = (),
) -> FamilyComparison | None:
    """Return the comparison of two families of methods; None if there is no pair to compare.

    Parameters
    ----------
    together, apart
        Positions of the methods that learn together, and of the methods that learn each task alone.
    gains
        Returns the gain of the first method over the second.
    min_effect
        Smallest relevant gain, relative to the value of the method ``apart``.
    trivial
        Positions of the trivial methods, which "helps" must also beat.
    """
    # a method without scores says nothing about the others of its family
    together, apart = (
        [s for s in together if any(gains(s, a) is not None for a in apart)],
        [a for a in apart if any(gains(s, a) is not None for s in together)],
    )
    if not together or not apart:
        return None
    helps = _test_family(together, [*apart, *trivial], gains)
    hurts = _test_family(apart, together, lambda a, s: _negated(gains(s, a)))
    if helps.p_value <= hurts.p_value:
        test, pair = helps, (helps.best, helps.closest)
    else:
        test, pair = hurts, (hurts.closest, hurts.best)
    gain = gains(*pair)
    if gain is None:
        return None
    low, high = gain.interval(LEVEL / test.n_tests)
    return FamilyComparison(
        together=pair[0],
        apart=pair[1],
        gain=gain.mean,
        low=low,
        high=high,
        p_value=min(1.0, 2 * test.p_value),
        margin=min_effect * abs(gain.value),
    )


def verdict_of(comparison: GainTest | None, *, p_value: float | None = None) -> Verdict:
    """Return the verdict of a comparison.

    *helps*, *hurts*: the difference is significant and at least the smallest relevant gain.
    *equal*: the difference, or its whole interval, is smaller than this gain. *unclear*: the data
    do not decide. *none*: nothing was tested.

    Parameters
    ----------
    p_value
        Replaces the comparison's own p value if it was adjusted for several comparisons.
    """
    if comparison is None:
        return "none"
    if max(abs(comparison.low), abs(comparison.high)) <= comparison.margin:
        return "equal"
    if (comparison.p_value if p_value is None else p_value) >= LEVEL:
        return "unclear"
    if abs(comparison.gain) < comparison.margin:
        return "equal"
    return "helps" if comparison.gain > 0 else "hurts"


@dataclass(frozen=True, slots=True)
class _FamilyTest:
    """The test that a method of one family is better than all methods of another.

    Parameters
    ----------
    best
        The method with the smallest p value.
    closest
        The method of the other family with the smallest difference from it.
    p_value
        One-sided, corrected for the number of methods of the first family.
    n_tests
        Number of methods of the first family.
    """

    best: int
    closest: int
    p_value: float
    n_tests: int


def _test_family(family: Sequence[int], others: Sequence[int], gains: GainFunction) -> _FamilyTest:
    def p_value(method: int) -> float:
        pairs = [gains(method, other) for other in others]
        return max(1.0 if gain is None else gain.p_greater for gain in pairs)

    def mean_gain(method: int, other: int) -> float:
        gain = gains(method, other)
        return math.inf if gain is None else gain.mean

    best = min(family, key=p_value)
    closest = min(others, key=lambda other: mean_gain(best, other))
    return _FamilyTest(best, closest, min(1.0, len(family) * p_value(best)), len(family))


def _negated(gain: Gain | None) -> Gain | None:
    return None if gain is None else -gain
