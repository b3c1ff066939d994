"""What is counted soon: many at once take less time than each as it comes."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

Event = TypeVar("Event")
#: So many are counted while a caller waits for nobody but them.
MANY: Final = 16


class Tally(Generic[Event]):
    """Keeps events until there are many, or somebody asks what they amount to.

    Parameters
    ----------
    count
        Counts events, in order; not called twice at the same time.
    most
        So many are not kept.
    """

    def __init__(self, count: Callable[[Sequence[Event]], None], most: int = MANY) -> None:
        self._count = count
        self._most = most
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()

    def add(self, event: Event) -> None:
        """Take an event, by any thread."""
        self._events.append(event)
        if len(self._events) >= self._most:
            self.settle()

    def settle(self) -> None:
        """Count what is kept."""
        with self._lock:
            # what others add meanwhile waits for the next time
            events = [self._events.popleft() for _ in range(len(self._events))]
            if events:
                self._count(events)
