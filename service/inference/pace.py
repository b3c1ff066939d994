"""How long a call will take, told by those before it."""

from typing import Final

#: How much of a pace is left after a faster call.
_DECAY: Final = 0.8


class Pace:
    """Times of the methods of one model, by the number of values they are given.

    Whatever a method does is at most in proportion to its values, so the time for one value, taken
    of a small call, is enough for any larger one.
    """

    def __init__(self) -> None:
        self._ns_a_value: dict[str, float] = {}
        self._doubted: dict[str, int] = {}

    def expected_ns(self, method: str, n_values: int) -> float | None:
        """Give the time to expect; None where it is to be measured first."""
        pace = self._ns_a_value.get(method)
        if self._doubted and self._doubted.get(method, -1) >= n_values:
            del self._doubted[method]
            return None
        return None if pace is None else pace * n_values

    def doubt(self, method: str, n_values: int) -> None:
        """Have the next call of no more values measured again."""
        self._doubted[method] = n_values

    def learn(self, method: str, n_values: int, spent_ns: int) -> None:
        """Note what a call took; a slow one is remembered over some fast ones."""
        before = self._ns_a_value.get(method, 0.0)
        self._ns_a_value[method] = max(spent_ns / max(1, n_values), _DECAY * before)
