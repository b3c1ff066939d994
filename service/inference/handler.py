"""Handling of one inference request: resolve, parse, compute, write and count.

Most requests have a few rows and take less time than a round trip to a thread. These are computed
on the event loop; the time that a request will take is estimated from earlier ones.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from algorithms.interface.new_tasks import NewTasks
from algorithms.wrappers.preparation.encoder import collect_unknown
from service.inference.call import Body, Call, InferenceResult
from service.inference.compute import compute
from service.inference.context import InferenceServices
from service.inference.encoding import compress, decompress
from service.inference.new_tasks import HEADER, join_names
from service.inference.row_ids import ROW_IDS, MonitoredCall, monitored_call
from service.inference.statistics import INFER, INPUT, OUTPUT, QUEUE, Clock
from service.inference.task_column import TaskSource
from service.models.latency import LatencyEstimator
from service.models.resolver import ResolvedModel, Target
from service.models.store import ServableVersion

#: Parsing JSON of this size takes less time than waking a thread.
_MAX_INLINE_BYTES: Final = 64 * 1024
#: Header with the unknown values of categories by column, and its maximum length.
UNKNOWN_CATEGORIES: Final = b"sibling-unknown-categories"
_MAX_UNKNOWN_BYTES: Final = 4096
#: Longer requests are computed in a thread, as they would block the event loop.
_MAX_INLINE_NS: Final = 1_000_000


class ParsedCall(NamedTuple):
    """Inference request without its body.

    Attributes
    ----------
    path
        Path of the route, such as ``/v2/models/{name}/infer``.
    version
        Version of the model; None for the latest.
    task
        Task in the query.
    headers
        Headers by lower-case name.
    level
        Level of intervals and sets in the query.
    new_tasks
        What to do about tasks that the model was not trained on, in the query.
    """

    path: str
    owner: str
    name: str
    version: int | None
    task: str | None
    headers: Mapping[str, str]
    level: float | None = None
    new_tasks: NewTasks | None = None


#: Headers as ASGI has them: lower-case names and values.
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]


class Reply(NamedTuple):
    """Response body and the headers that describe it."""

    body: bytes
    headers: Headers


class InferenceHandler(ABC):
    """Handler of one inference request.

    Parameters
    ----------
    clock
        Clock that was created when the request arrived.

    Raises
    ------
    Problem
        A header has an unsupported value.

    Attributes
    ----------
    is_cheap_to_parse
        Whether parsing the body takes less time than waking a thread.
    """

    def __init__(
        self, services: InferenceServices, parsed: ParsedCall, body: Body, clock: Clock
    ) -> None:
        self.services = services
        self.parsed = parsed
        self.body = body
        self.clock = clock
        is_plain = "content-encoding" not in parsed.headers
        self.is_cheap_to_parse = is_plain and len(body) <= _MAX_INLINE_BYTES
        self._target: Target = (parsed.path, parsed.owner, parsed.name, parsed.version)
        self._resolved: ResolvedModel | None = None
        self._call: Call | None = None
        self._n_rows = 0
        self._unknown: dict[str, list[str]] = {}
        #: Ids of the rows in the header, or those of a column; None: they are made.
        self._row_ids: str | list[str] | None = parsed.headers.get(ROW_IDS)
        #: What the monitors of the version record once the response is sent.
        self._monitored: MonitoredCall | None = None

    def decompressed_body(self) -> Body:
        """Return the decompressed body."""
        coding = self.parsed.headers.get("content-encoding")
        return (
            self.body if coding is None else decompress(self.body, coding, self.services.settings)
        )

    def _served(self) -> ServableVersion:
        """Return the version that computes the request, while an alias may move."""
        assert self._resolved is not None  # set before the body is read
        return self._resolved.served

    def make_reply(self, content: bytes, headers: Headers, result: InferenceResult) -> Reply:
        """Return a reply, compressed if the client requests it.

        Headers have the tasks that were not trained, and the values of categories that the training
        rows do not have.
        """
        if result.new_tasks:
            headers = (*headers, (HEADER, join_names(result.new_tasks).encode()))
        if self._unknown:
            headers = (*headers, (UNKNOWN_CATEGORIES, _dump_unknown(self._unknown)))
        ids = None if self._monitored is None else self._monitored.ids.given
        if isinstance(ids, str):  # the client knows those of a column
            headers = (*headers, (ROW_IDS.encode(), ids.encode()))
        accepted = self.parsed.headers.get("accept-encoding")
        if accepted is None:
            return Reply(content, headers)
        body, coding = compress(content, accepted)
        if coding is not None:
            headers = (*headers, (b"content-encoding", coding.encode()))
        return Reply(body, headers)

    @abstractmethod
    def find(self) -> ResolvedModel:
        """Query the version and the method that the request names."""

    @abstractmethod
    def read(self, tasks: TaskSource) -> Call:
        """Parse the body.

        Parameters
        ----------
        tasks
            Source of the tasks of the rows.
        """

    @abstractmethod
    def write(self, result: InferenceResult) -> Reply:
        """Return the response in the requested format."""

    async def run(self) -> Reply:
        """Return the reply; :meth:`record_success` counts the request once it is sent.

        Raises
        ------
        Problem, AlgorithmError
            The request is invalid, or the queue is full.
        """
        reply = self.try_inline()
        return await self.run_in_pool() if reply is None else reply

    def try_inline(self) -> Reply | None:
        """Return the reply if it takes little time and no database query, else None."""
        if not self.is_cheap_to_parse:
            return None
        resolved = self._resolved = self.services.resolver.cached(self._target)
        if resolved is None:
            return None
        call = self._call = self._read(resolved)
        n_values = call.rows.n_values()
        estimator = self._estimator(resolved)
        estimate_ns = estimator.estimate_ns(resolved.method, n_values)
        # estimates apply to rows of one task only
        if estimate_ns is None or estimate_ns > _MAX_INLINE_NS or not isinstance(call.task, str):
            return None
        reply = self._finish(resolved, call)
        spent_ns = self.clock.phases[INFER] + self.clock.phases[OUTPUT]
        # with a busy pool, other threads ran in this time too
        if spent_ns > _MAX_INLINE_NS and self.services.compute.is_idle():
            estimator.invalidate(resolved.method, n_values)
        return reply

    async def run_in_pool(self) -> Reply:
        """Return the reply, computed in a thread; reuse the results of try_inline."""
        services = self.services
        if self._resolved is None and self.is_cheap_to_parse:
            await services.resolver.resolve_in_pool(self._target, self.find, services.compute.run)
            reply = self.try_inline()
            if reply is not None:
                return reply
        return await services.compute.run(self._compute)

    def _compute(self) -> Reply:
        self._resolved = resolved = self._resolved or self.services.resolver.resolve(
            self._target, self.find
        )
        self._call = call = self._call or self._read(resolved)
        started = time.thread_time_ns()  # CPU time of this thread, without waiting for others
        reply = self._finish(resolved, call)
        spent_ns = time.thread_time_ns() - started
        self._estimator(resolved).observe(resolved.method, call.rows.n_values(), spent_ns)
        return reply

    def _estimator(self, resolved: ResolvedModel) -> LatencyEstimator:
        return self.services.models.estimator(resolved.served)

    def _read(self, resolved: ResolvedModel) -> Call:
        self.clock.end(QUEUE)
        try:
            tasks = self.services.inputs.task_source(resolved.served, self.parsed.task)
            with collect_unknown(self._unknown):
                call = self.read(tasks)
            # those of a body come first
            if self.parsed.level is not None and call.level is None:
                call = call._replace(level=self.parsed.level)
            if self.parsed.new_tasks is not None and call.new_tasks is None:
                call = call._replace(new_tasks=self.parsed.new_tasks)
        except Exception:
            self._record_failure()
            raise
        self.clock.end(INPUT)
        return call

    def _finish(self, resolved: ResolvedModel, call: Call) -> Reply:
        clock = self.clock
        clock.end(QUEUE)
        try:
            with collect_unknown(self._unknown):
                result = compute(self.services, resolved, call)
            clock.end(INFER)
            if resolved.served.monitors or self._row_ids is not None:
                self._monitored = monitored_call(
                    self.parsed.owner, resolved, call.rows, result, self._row_ids
                )
            reply = self.write(result)
            clock.end(OUTPUT)
        except Exception:
            self._record_failure()
            raise
        self._n_rows = len(result.outputs)
        return reply

    def record_success(self) -> None:
        """Count the request. The client does not have to wait for it."""
        assert self._resolved is not None  # set by run
        self.services.statistics.record_success(
            self.parsed.owner, self._resolved, self.clock, self._n_rows
        )
        if self._monitored is not None:
            self.services.record(self._monitored)

    def _record_failure(self) -> None:
        if self._resolved is not None:
            self.services.statistics.record_failure(self.parsed.owner, self._resolved, self.clock)


def _dump_unknown(unknown: Mapping[str, list[str]]) -> bytes:
    """Return as many columns as a header has room for, as JSON in ASCII."""
    shown: dict[str, list[str]] = {}
    for column, levels in unknown.items():
        if len(json.dumps({**shown, column: levels})) <= _MAX_UNKNOWN_BYTES:
            shown[column] = levels
    return json.dumps(shown).encode()


class MakeHandler(Protocol):
    """Factory of handlers. It validates the headers, not the body."""

    def __call__(
        self, services: InferenceServices, parsed: ParsedCall, body: Body, clock: Clock
    ) -> InferenceHandler:
        """Return the handler."""
