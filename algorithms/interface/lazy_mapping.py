"""Mappings whose values are made when they are first used."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

V = TypeVar("V")


class LazyMapping(Mapping[str, V]):
    """A mapping with known keys, whose values are made when they are first used.

    Parameters
    ----------
    keys
        The keys, in their order.
    make
        Returns the value of a key. Threads may call it at once; all get the same value.
    """

    def __init__(self, keys: Iterable[str], make: Callable[[str], V]) -> None:
        self._keys = dict.fromkeys(keys)
        self._make = make
        self._made: dict[str, V] = {}

    def __getitem__(self, key: str) -> V:
        if key in self._made:
            return self._made[key]
        if key not in self._keys:
            raise KeyError(key)
        return self._made.setdefault(key, self._make(key))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
