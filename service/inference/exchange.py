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
from service.inference.encoding import compress, expand
from service.inference.lookup import Found, Target
from service.inference.pace import Pace
from service.inference.statistics import INFER, INPUT, OUTPUT, QUEUE, Clock

#: JSON of so many bytes is read sooner than a thread wakes.
LIGHT_BYTES: Final = 64 * 1024
#: What takes longer is computed in a thread: nobody else is answered meanwhile.
_QUICK_NS: Final = 1_000_000


class Head(NamedTuple):
    """What is known of a call before its body.

    Attributes
    ----------
    path
        Of its route, such as ``/v2/models/{name}/infer``.
    version
        None: the latest.
    task
        Of the query.
    headers
        By names in lower case.
    """

    path: str
    owner: str
    name: str
    version: int | None
    task: str | None
    headers: Mapping[str, str]


class Reply(NamedTuple):
    """What is sent back: a body, and the headers that tell what it is, by names in lower case."""

    body: bytes
    headers: dict[str, str]


class Exchange(ABC):
    """One call, from what came to the reply.

    Parameters
    ----------
    clock
        Made when the call arrived.

    Raises
    ------
    Problem
        The head asks for what is not there.

    Attributes
    ----------
    is_light
        The body is read sooner than a thread wakes.
    """

    is_light: bool

    def __init__(self, services: Services, head: Head, body: Body, clock: Clock) -> None:
        self.services = services
        self.head = head
        self.body = body
        self.clock = clock
        self._target: Target = (head.path, head.owner, head.name, head.version)
        self._found: Found | None = None
        self._call: Call | None = None
        self._failure: Exception | None = None
        self._n_rows = 0

    def expanded(self) -> Body:
        """Give the body without its Content-Encoding."""
        coding = self.head.headers.get("content-encoding")
        return self.body if coding is None else expand(self.body, coding, self.services.settings)

    def compressed(self, content: bytes, headers: dict[str, str]) -> Reply:
        """Give a reply in a Content-Encoding that the caller asks for."""
        accepted = self.head.headers.get("accept-encoding")
        if accepted is None:
            return Reply(content, headers)
        body, coding = compress(content, accepted)
        return Reply(body, headers if coding is None else headers | {"content-encoding": coding})

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
                return self._quickly(self._found, self._call)
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
        services = self.services
        if self._found is None and self.is_light:
            await services.lookup.renew(self._target, self.find, services.compute)
            reply = self.here()
            if reply is not None:
                self.count()
                return reply
            if self._failure is not None:
                raise self._failure
        return await services.compute.run(self._whole)

    def count(self) -> None:
        """Count a call that was answered."""
        assert self._found is not None
        self.services.statistics.succeeded(self.head.owner, self._found, self.clock, self._n_rows)

    def _whole(self) -> Reply:
        """Give the reply, and count it; what was done of it already is not done again."""
        self._found = found = self._found or self.services.lookup.find_target(
            self._target, self.find
        )
        self._call = call = self._call or self._begin(found)
        started = time.thread_time_ns()  # others have their turns meanwhile
        reply = self._finish(found, call)
        self._pace(found).learn(found.method, call.rows.n_values(), time.thread_time_ns() - started)
        self.count()
        return reply

    def _quickly(self, found: Found, call: Call) -> Reply:
        """Give the reply; where it took long, which may be the machine's doing, note that."""
        reply = self._finish(found, call)
        spent_ns = self.clock.phases[INFER] + self.clock.phases[OUTPUT]
        if spent_ns > _QUICK_NS and self.services.compute.is_idle():  # else it had its turns
            self._pace(found).doubt(found.method, call.rows.n_values())
        return reply

    def _pace(self, found: Found) -> Pace:
        return self.services.models.pace(found.served)

    def _begin(self, found: Found) -> Call:
        self.clock.end(QUEUE)
        try:
            call = self.read()
        except Exception:
            self.services.statistics.failed(self.head.owner, found, self.clock)
            raise
        self.clock.end(INPUT)
        return call

    def _is_quick(self, found: Found, call: Call) -> bool:
        if not isinstance(call.task, str):  # of several, values do not tell how long they take
            return False
        expected_ns = self._pace(found).expected_ns(found.method, call.rows.n_values())
        return expected_ns is not None and expected_ns <= _QUICK_NS

    def _finish(self, found: Found, call: Call) -> Reply:
        services, clock = self.services, self.clock
        clock.end(QUEUE)
        try:
            answer = compute(services, found, call)
            clock.end(INFER)
            reply = self.write(answer)
            clock.end(OUTPUT)
        except Exception:
            services.statistics.failed(self.head.owner, found, clock)
            raise
        self._n_rows = len(answer.outputs)
        return reply
