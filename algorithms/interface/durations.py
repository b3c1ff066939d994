"""Durations as people read them. The client imports this module, so it imports nothing."""

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
#: Durations of at least twice these are given in the unit.
_UNITS = ((_DAY_S, "days"), (_HOUR_S, "h"), (_MINUTE_S, "min"))
#: Larger values have no decimals.
_MAX_DECIMAL = 10


def describe_duration(seconds: float) -> str:
    """Return a duration with about two digits, such as "4 min" or "2.5 h", and at least "1 s"."""
    for unit, name in _UNITS:
        if seconds >= 2 * unit:
            value = seconds / unit
            return f"{value:.2g} {name}" if value < _MAX_DECIMAL else f"{value:,.0f} {name}"
    return f"{max(seconds, 1.0):.0f} s"
