"""Estimation of the duration of an inference request from earlier ones."""

from typing import Final

#: Factor on the estimate after a faster request.
_DECAY: Final = 0.8


class LatencyEstimator:
    """Durations of the methods of one model, per input value.

    The work of a method grows at most linearly with the number of values, so the time per value of
    a small request is an upper bound for larger ones.
    """

    def __init__(self) -> None:
        self._ns_per_value: dict[str, float] = {}
        self._invalid: dict[str, int] = {}

    def estimate_ns(self, method: str, n_values: int) -> float | None:
        """Return the expected duration, None if the method must be measured first."""
        ns_per_value = self._ns_per_value.get(method)
        if self._invalid and self._invalid.get(method, -1) >= n_values:
            del self._invalid[method]
            return None
        return None if ns_per_value is None else ns_per_value * n_values

    def invalidate(self, method: str, n_values: int) -> None:
        """Drop the estimate for the next request with at most this number of values."""
        self._invalid[method] = n_values

    def observe(self, method: str, n_values: int, spent_ns: int) -> None:
        """Record the duration of a request. Slow requests outweigh fast ones that follow."""
        before = self._ns_per_value.get(method, 0.0)
        self._ns_per_value[method] = max(spent_ns / max(1, n_values), _DECAY * before)
