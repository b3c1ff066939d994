"""Estimates how long a request will take from those before it."""

from typing import Final

#: How much of an estimate is left after a faster request.
_DECAY: Final = 0.8


class LatencyEstimator:
    """Times of the methods of one model, by the number of values they are given.

    The work of a method is at most in proportion to its values, so the time for one value, measured
    on a small request, is enough for any larger one.
    """

    def __init__(self) -> None:
        self._ns_per_value: dict[str, float] = {}
        self._invalid: dict[str, int] = {}

    def estimate_ns(self, method: str, n_values: int) -> float | None:
        """Return the time to expect; None if it is to be measured first."""
        ns_per_value = self._ns_per_value.get(method)
        if self._invalid and self._invalid.get(method, -1) >= n_values:
            del self._invalid[method]
            return None
        return None if ns_per_value is None else ns_per_value * n_values

    def invalidate(self, method: str, n_values: int) -> None:
        """Have the next request of no more values measured again."""
        self._invalid[method] = n_values

    def observe(self, method: str, n_values: int, spent_ns: int) -> None:
        """Record what a request took; a slow one is remembered over some fast ones."""
        before = self._ns_per_value.get(method, 0.0)
        self._ns_per_value[method] = max(spent_ns / max(1, n_values), _DECAY * before)
