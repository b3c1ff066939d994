"""One inference request: resolved, read, computed, written and counted, for every protocol.

Most requests are of a few rows and take less time than handing them to a thread and back. These are
computed on the event loop; how long one will take is estimated from those before it.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from service.context import Services
from service.inference.call import Body, Call, InferenceResult
from service.inference.compute import compute
from service.inference.encoding import compress, expand
from service.inference.latency import LatencyEstimator
from service.inference.resolver import ResolvedModel, Target
from service.inference.statistics import INFER, INPUT, OUTPUT, QUEUE, Clock

#: JSON of this size is read sooner than a thread wakes.
MAX_INLINE_BYTES: Final = 64 * 1024
#: What takes longer is computed in a thread, because nobody else is answered meanwhile.
_MAX_INLINE_NS: Final = 1_000_000


class ParsedCall(NamedTuple):
    """What is known of an inference request before its body.

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
    """A body, and the headers that describe it, by names in lower case."""

    body: bytes
    headers: dict[str, str]


class InferenceHandler(ABC):
    """One request, from its body to the reply.

    Parameters
    ----------
    clock
        Made when the request arrived.

    Raises
    ------
    Problem
        The headers ask for what is not supported.

    Attributes
    ----------
    is_cheap_to_parse
        The body is read sooner than a thread wakes.
    """

    is_cheap_to_parse: bool

    def __init__(self, services: Services, parsed: ParsedCall, body: Body, clock: Clock) -> None:
        self.services = services
        self.parsed = parsed
        self.body = body
        self.clock = clock
        self._target: Target = (parsed.path, parsed.owner, parsed.name, parsed.version)
        self._resolved: ResolvedModel | None = None
        self._call: Call | None = None

    def expanded(self) -> Body:
        """Return the body without its Content-Encoding."""
        coding = self.parsed.headers.get("content-encoding")
        return self.body if coding is None else expand(self.body, coding, self.services.settings)

    def compressed(self, content: bytes, headers: dict[str, str]) -> Reply:
        """Return a reply in the Content-Encoding that the caller asks for."""
        accepted = self.parsed.headers.get("accept-encoding")
        if accepted is None:
            return Reply(content, headers)
        body, coding = compress(content, accepted)
        return Reply(body, headers if coding is None else headers | {"content-encoding": coding})

    @abstractmethod
    def find(self) -> ResolvedModel:
        """Return the version that the request names, and the method."""

    @abstractmethod
    def read(self) -> Call:
        """Parse the body."""

    @abstractmethod
    def write(self, result: InferenceResult) -> Reply:
        """Write the answer as the caller wants it."""

    async def run(self) -> Reply:
        """Return the reply.

        Raises
        ------
        Problem, AlgorithmError
            The request is wrong, or as many wait as may wait.
        """
        reply = self.try_inline()
        return await self.run_in_pool() if reply is None else reply

    def try_inline(self) -> Reply | None:
        """Return the reply if that takes little time and no query, else None."""
        if not self.is_cheap_to_parse:
            return None
        resolved = self._resolved = self.services.resolver.cached(self._target)
        if resolved is None:
            return None
        call = self._call = self._read()
        n_values = call.rows.n_values()
        estimator = self._estimator(resolved)
        estimate_ns = estimator.estimate_ns(resolved.method, n_values)
        # of several tasks, the number of values does not tell how long they take
        if estimate_ns is None or estimate_ns > _MAX_INLINE_NS or not isinstance(call.task, str):
            return None
        reply = self._finish(resolved, call)
        spent_ns = self.clock.phases[INFER] + self.clock.phases[OUTPUT]
        # while the pool computes, other threads had their turns in this time
        if spent_ns > _MAX_INLINE_NS and self.services.compute.is_idle():
            estimator.invalidate(resolved.method, n_values)
        return reply

    async def run_in_pool(self) -> Reply:
        """Return the reply, computed in a thread; what was done of it is not done again."""
        services = self.services
        if self._resolved is None and self.is_cheap_to_parse:
            await services.resolver.resolve_in_pool(self._target, self.find, services.compute)
            reply = self.try_inline()
            if reply is not None:
                return reply
        return await services.compute.run(self._compute)

    def _compute(self) -> Reply:
        self._resolved = resolved = self._resolved or self.services.resolver.resolve(
            self._target, self.find
        )
        self._call = call = self._call or self._read()
        started = time.thread_time_ns()  # of the thread: others have their turns meanwhile
        reply = self._finish(resolved, call)
        spent_ns = time.thread_time_ns() - started
        self._estimator(resolved).observe(resolved.method, call.rows.n_values(), spent_ns)
        return reply

    def _estimator(self, resolved: ResolvedModel) -> LatencyEstimator:
        return self.services.models.estimator(resolved.served)

    def _read(self) -> Call:
        self.clock.end(QUEUE)
        try:
            call = self.read()
        except Exception:
            self._count_failure()
            raise
        self.clock.end(INPUT)
        return call

    def _finish(self, resolved: ResolvedModel, call: Call) -> Reply:
        clock = self.clock
        clock.end(QUEUE)
        try:
            result = compute(self.services, resolved, call)
            clock.end(INFER)
            reply = self.write(result)
            clock.end(OUTPUT)
        except Exception:
            self._count_failure()
            raise
        n_rows = len(result.outputs)
        self.services.statistics.succeeded(self.parsed.owner, resolved, clock, n_rows)
        return reply

    def _count_failure(self) -> None:
        if self._resolved is not None:
            self.services.statistics.failed(self.parsed.owner, self._resolved, self.clock)


class MakeHandler(Protocol):
    """Makes the handler of a request; its headers are checked, its body not yet."""

    def __call__(
        self, services: Services, parsed: ParsedCall, body: Body, clock: Clock
    ) -> InferenceHandler:
        """Return the handler, or raise the problem of the headers."""
