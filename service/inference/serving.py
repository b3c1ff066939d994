"""A call served: found, read, computed, written, and counted; the same for both protocols."""

from collections.abc import Callable
from typing import TypeVar

from service.context import Services
from service.inference.call import Answer, Call
from service.inference.compute import compute
from service.inference.statistics import Clock
from service.models.store import Served

Body = TypeVar("Body")


def serve(
    services: Services,
    owner: str,
    *,
    clock: Clock,
    find: Callable[[], tuple[Served, str]],
    read: Callable[[], Call],
    write: Callable[[Answer], Body],
) -> Body:
    """Give what ``write`` makes of the answer to a call.

    Parameters
    ----------
    find
        Gives the version that is called, and the method.
    """
    clock.end_phase()
    served, method = find()
    try:
        call = read()
        clock.end_phase()
        answer = compute(services, served, method, call)
        clock.end_phase()
        body = write(answer)
        clock.end_phase()
    except Exception:
        services.statistics.failed(owner, served, method, clock)
        raise
    services.statistics.succeeded(owner, served, method, clock, len(answer.outputs))
    return body
