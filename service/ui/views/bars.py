"""Bars and intervals of a page, with texts beside them that stay readable on a phone."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """A value to draw.

    Parameters
    ----------
    kind
        Class of its colour.
    text, note
        The value, and its interval or another detail, in words.
    """

    name: str
    detail: str
    kind: str
    value: float
    low: float | None
    high: float | None
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its places, in percent of the width.

    Parameters
    ----------
    start, length
        Place of the bar between 0 and the value.
    at, low, high
        Places of the value and of its interval.
    """

    value: Value
    start: float
    length: float
    at: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Bars:
    """Values on a common scale.

    Parameters
    ----------
    zero
        Place of 0.
    shape
        bar, or dot with an interval.
    """

    bars: Sequence[Bar]
    zero: float
    shape: str = "bar"


def bars_of(values: Sequence[Value], *, shape: str = "bar") -> Bars:
    """Return values on a scale that has 0 and every interval."""
    ends = [end for one in values for end in (0.0, one.value, one.low, one.high) if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    # a margin for the round end of a line
    unit = 98.0 / ((high - low) or 1.0)

    def place(value: float) -> float:
        return round(1.0 + (value - low) * unit, 2)

    zero = place(0.0)
    bars = [
        Bar(
            one,
            min(zero, place(one.value)),
            round(abs(place(one.value) - zero), 2),
            place(one.value),
            None if one.low is None else place(one.low),
            None if one.high is None else place(one.high),
        )
        for one in values
    ]
    return Bars(bars, zero, shape)
