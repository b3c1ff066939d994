"""A call served: found, read, computed, written, and counted; the same for every protocol.

Most calls are of a few rows and take less time than to hand them to a thread and back. They are
computed where they arrive; how long one will take is known from those before it.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, NamedTuple

from service.context import Services
from service.inference.call import Answer, Body, Call
from service.inference.compute import compute
from service.inference.lookup import Found, Target
from service.inference.statistics import INFER, INPUT, OUTPUT, QUEUE, Clock

#: JSON of so many bytes is read sooner than a thread wakes.
LIGHT_BYTES: Final = 64 * 1024
#: What takes longer is computed in a thread: nobody else is answered meanwhile.
_QUICK_NS: Final = 300_000


class Address(NamedTuple):
    """What the address of a call names.

    Attributes
    ----------
    path
        Of its route, such as ``/v2/models/{name}/infer``.
    version
        None: the latest.
    task
        Of the query.
    """

    path: str
    name: str
    version: int | None
    task: str | None


class Received(NamedTuple):
    """What came: from whom, and what.

    Attributes
    ----------
    headers
        By names in lower case.
    """

    owner: str
    headers: Mapping[str, str]
    body: Body


class Reply(NamedTuple):
    """What is sent back: a body, and the headers that tell what it is, by names in lower case."""

    body: bytes
    headers: dict[str, str]


class Exchange(ABC):
    """One call, from what came to the reply.

    Parameters
    ----------
    target
        What is called.
    clock
        Made when the call arrived.

    Attributes
    ----------
    is_light
        The body is read sooner than a thread wakes.
    """

    is_light: bool

    def __init__(self, services: Services, target: Target, clock: Clock) -> None:
        self.services = services
        self._target = target
        self._clock = clock
        self._found: Found | None = None
        self._call: Call | None = None
        self._failure: Exception | None = None
        self._spent_ns = self._n_rows = 0

    @abstractmethod
    def find(self) -> Found:
        """Give the version that the target stands for, and the method."""

    @abstractmethod
    def read(self) -> Call:
        """Give what the body asks for."""

    @abstractmethod
    def write(self, answer: Answer) -> Reply:
        """Give what the caller wants to have of the answer."""

    def here(self) -> Reply | None:
        """Give the reply, where it takes so little time; else None, and it comes later.

        What is given is counted by :meth:`count`, for which the caller need not wait.
        """
        self._found = self.services.lookup.known(self._target) if self.is_light else None
        if self._found is None:
            return None
        try:
            self._call = self._begin(self._found)
            if self._is_quick(self._found, self._call):
                return self._finish(self._found, self._call)
        except Exception as error:  # noqa: BLE001 - raised later, where problems are told
            self._failure = error
        return None

    async def later(self) -> Reply:
        """Give the reply that could not be given at once.

        Raises
        ------
        Exception
            What is wrong with the call.
        """
        if self._failure is not None:
            raise self._failure
        return await self.services.compute.run(self._whole)

    def count(self) -> None:
        """Count a call that was answered."""
        assert self._found is not None
        assert self._call is not None
        services, method = self.services, self._found.method
        pace = services.models.pace(self._found.served)
        pace.learn(method, self._call.rows.n_values(), self._spent_ns)
        services.statistics.succeeded(self._target.owner, self._found, self._clock, self._n_rows)

    def _whole(self) -> Reply:
        """Give the reply, and count it; what was done of it already is not done again."""
        self._found = self._found or self.services.lookup.find_target(self._target, self.find)
        self._call = self._call or self._begin(self._found)
        reply = self._finish(self._found, self._call)
        self.count()
        return reply

    def _begin(self, found: Found) -> Call:
        self._clock.end(QUEUE)
        try:
            call = self.read()
        except Exception:
            self.services.statistics.failed(self._target.owner, found, self._clock)
            raise
        self._clock.end(INPUT)
        return call

    def _is_quick(self, found: Found, call: Call) -> bool:
        if not isinstance(call.task, str):  # of several, values do not tell how long they take
            return False
        pace = self.services.models.pace(found.served)
        expected_ns = pace.expected_ns(found.method, call.rows.n_values())
        return expected_ns is not None and expected_ns <= _QUICK_NS

    def _finish(self, found: Found, call: Call) -> Reply:
        services, clock = self.services, self._clock
        clock.end(QUEUE)
        started = time.thread_time_ns()
        try:
            answer = compute(services, found, call)
            clock.end(INFER)
            reply = self.write(answer)
            clock.end(OUTPUT)
        except Exception:
            services.statistics.failed(self._target.owner, found, clock)
            raise
        self._spent_ns = time.thread_time_ns() - started
        self._n_rows = len(answer.outputs)
        return reply
