"""Bars and intervals of a page, with texts beside them that stay readable on a phone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Value:
    """A value to draw.

    Parameters
    ----------
    kind
        Class of its colour.
    text, note
        The value, and its interval or another detail, in words.
    mark
        Another value to compare it with; None without.
    """

    name: str
    detail: str
    kind: str
    value: float
    low: float | None
    high: float | None
    text: str
    note: str = ""
    mark: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its places, in percent of the width.

    Parameters
    ----------
    start, length
        Place of the bar between 0 and the value.
    at, low, high, mark
        Places of the value, of its interval, and of the other value.
    """

    value: Value
    start: float
    length: float
    at: float
    low: float | None
    high: float | None
    mark: float | None


@dataclass(frozen=True, slots=True)
class Bars:
    """Values on a common scale.

    Parameters
    ----------
    zero
        Place of 0.
    shape
        bar, or dot with an interval.
    legend
        What the marks (``mark``) and the values of a kind are.
    """

    bars: Sequence[Bar]
    zero: float
    shape: str = "bar"
    legend: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chart:
    """Values with a caption, and a sentence on what is not shown.

    Parameters
    ----------
    rest
        Further values, after a sentence on those between.
    """

    bars: Bars
    caption: str
    more: str = ""
    rest: Bars | None = None


def bars_of(
    values: Sequence[Value], *, shape: str = "bar", legend: Mapping[str, str] | None = None
) -> Bars:
    """Return values on a scale that has 0, every interval and every mark.

    Parameters
    ----------
    legend
        What the marks (``mark``) and the values of a kind are; what no value has is left out.
    """
    drawn = [end for one in values for end in (0.0, one.value, one.low, one.high, one.mark)]
    ends = [end for end in drawn if end is not None]
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
            None if one.mark is None else place(one.mark),
        )
        for one in values
    ]
    shown = {one.kind for one in values} | {"mark" for one in values if one.mark is not None}
    entries = {kind: text for kind, text in (legend or {}).items() if kind in shown}
    return Bars(bars, zero, shape, entries)
