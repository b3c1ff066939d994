"""A call served: found, read, computed, written, and counted; the same for both protocols.

Most calls are of a few rows and take less time than to hand them to a thread and back. They are
computed where they arrive; how long one will take is known from those before it.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from service.context import Services
from service.inference.call import Answer, Call
from service.inference.compute import compute
from service.inference.lookup import Found, Target
from service.inference.statistics import INFER, INPUT, OUTPUT, QUEUE, Clock

Body = TypeVar("Body")
Result = TypeVar("Result")

#: A body of so many bytes is read sooner than a thread wakes.
LIGHT_BYTES: Final = 16 * 1024
#: What takes longer is computed in a thread: nobody else is answered meanwhile.
_QUICK_NS: Final = 300_000


async def serve(
    services: Services,
    target: Target,
    *,
    clock: Clock,
    find: Callable[[], Found],
    read: Callable[[], Call],
    write: Callable[[Answer], Body],
    is_light: bool,
) -> Body:
    """Give what ``write`` makes of the answer to a call.

    Parameters
    ----------
    find
        Gives the version that the target stands for, and the method.
    is_light
        The body is read sooner than a thread wakes.
    """

    def counted(found: Found, step: Callable[[], Result]) -> Result:
        try:
            return step()
        except Exception:
            services.statistics.failed(target.owner, found, clock)
            raise

    def begin() -> Call:
        clock.end(QUEUE)
        call = read()
        clock.end(INPUT)
        return call

    def finish(found: Found, call: Call) -> Body:
        clock.end(QUEUE)
        started = time.thread_time_ns()
        answer = compute(services, found, call)
        clock.end(INFER)
        body = write(answer)
        clock.end(OUTPUT)
        spent_ns = time.thread_time_ns() - started
        services.models.pace(found.served).learn(found.method, call.rows.n_values(), spent_ns)
        services.statistics.succeeded(target.owner, found, clock, len(answer.outputs))
        return body

    def whole() -> Body:
        found = services.lookup.find_target(target, find)
        return counted(found, lambda: finish(found, begin()))

    found = services.lookup.known(target) if is_light else None
    if found is None:
        return await services.compute.run(whole)
    call = counted(found, begin)
    if _is_quick(services, found, call):
        return counted(found, lambda: finish(found, call))
    return await services.compute.run(lambda: counted(found, lambda: finish(found, call)))


def _is_quick(services: Services, found: Found, call: Call) -> bool:
    if not isinstance(call.task, str):  # of several, values do not tell how long they take
        return False
    pace = services.models.pace(found.served)
    expected_ns = pace.expected_ns(found.method, call.rows.n_values())
    return expected_ns is not None and expected_ns <= _QUICK_NS
