"""Numbers, times and sizes as people read them."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

NONE: Final = "\u2013"
#: Larger numbers of type float have an exponent.
_MAX_WHOLE: Final = 1e9
#: Relative to the largest value of a column, smaller ones stand for 0.
_NEAR_ZERO: Final = 1e-9
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_AGES: Final = ((86_400 * 2, 86_400, "days"), (7200, 3600, "hours"), (120, 60, "minutes"))


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many significant digits; whole digits are all shown."""
    if value is None or not math.isfinite(value):
        return NONE
    is_whole = value == int(value) or abs(value) >= 10**digits
    if isinstance(value, int) or (is_whole and abs(value) < _MAX_WHOLE):
        return f"{round(value):,}".replace(",", "\u202f")
    return f"{value:.{digits}g}"


def column(values: Sequence[float | None], digits: int = 4) -> list[str]:
    """Return the numbers of a column with equally many decimals, for the digits of the largest.

    Each has decimals of its own if a small one would have less than two digits, unless it is so
    small that it stands for 0.
    """
    finite = [abs(value) for value in values if value is not None and math.isfinite(value)]
    largest = max(finite, default=0.0)
    if not largest or largest < 10**-digits or all(value == int(value) for value in finite):
        return [number(value, digits) for value in values]
    decimals = max(0, digits - 1 - math.floor(math.log10(largest)))
    smallest = min(value for value in finite if value > largest * _NEAR_ZERO)
    if smallest < 10 ** (1 - decimals):
        return [number(value, digits) for value in values]
    return aligned(values, decimals)


def aligned(values: Sequence[float | None], decimals: int) -> list[str]:
    """Return numbers with equally many decimals, such as 1 for percentage points."""
    return [
        NONE
        if value is None or not math.isfinite(value)
        else f"{round(value, decimals) + 0.0:,.{decimals}f}".replace(",", "\u202f")
        for value in values
    ]


def interval(ends: Mapping[str, Any] | None) -> str:
    """Return the interval from "low" to "high"; nothing where it is unknown."""
    if ends is None or ends["low"] is None or ends["high"] is None:
        return ""
    return " to ".join(column([ends["low"], ends["high"]], 3))


def size(n_bytes: int) -> str:
    """Return a number of bytes, such as ``3.4 MiB``."""
    value, unit = float(n_bytes), _UNITS[0]
    for larger in _UNITS[1:]:
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}"


def share(value: float) -> str:
    """Return a share as a percentage; a small one is not 0 %."""
    return "0 %" if value == 0 else "< 1 %" if value < 0.01 else f"{100 * value:.0f} %"


def duration(seconds: float) -> str:
    """Return a duration in its largest units."""
    if 0 < seconds < 0.05:
        return "< 0.1 s"
    if seconds < 60:
        text = f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}"
        return f"{text.removesuffix('.0')} s"
    minutes, remainder = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remainder} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(text: str) -> datetime:
    """Return the time of a text of the API."""
    return datetime.fromisoformat(text)


def ago(text: str) -> str:
    """Return how long ago a time was, or how far it lies ahead."""
    seconds = (datetime.now(UTC) - moment(text)).total_seconds()
    for threshold, unit, name in _AGES:
        if abs(seconds) >= threshold:
            if seconds < 0:
                return f"in {round(-seconds / unit)} {name}"
            return f"{int(seconds // unit)} {name} ago"
    if seconds < -1:  # clocks of two machines differ a little
        return "in a minute"
    return "1 minute ago" if seconds >= 60 else "just now"


def exact(text: str) -> str:
    """Return a time to the second."""
    return moment(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def elapsed(start: str, end: str | None) -> str:
    """Return the duration between two times of the API, or until now."""
    last = datetime.now(UTC) if end is None else moment(end)
    return duration(max(0.0, (last - moment(start)).total_seconds()))


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as ``1 job`` or ``2 jobs``."""
    return f"{number(n)} {singular if n == 1 else plural or singular + 's'}"


def plain(value: Any) -> str:
    """Return a value of JSON as text."""
    if value is None or isinstance(value, float):
        return number(value)
    if value == "":
        return NONE
    if isinstance(value, list):
        return ", ".join(plain(part) for part in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {plain(part)}" for name, part in value.items())
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )
