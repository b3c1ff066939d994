"""Memory that a job is expected to need, compared with its limit before it is queued."""

import math
from collections.abc import Sequence
from typing import Any, Final

import psutil

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import describe_size
from service.datasets.suitability import expected_memory
from service.errors.problems import Problem
from service.settings import MIB, Settings

#: A job gets a warning if it would exceed its limit with a fit of this many times the expected
#: memory, because estimates are right within a factor of 2.
UNCERTAINTY: Final = 2.0
#: Suggested limits are larger than the expected memory by this factor.
MARGIN: Final = 1.2


def check_memory(
    algorithm: Algorithm[Any, Any],
    tasks: Sequence[TaskSummary],
    params: Any,
    *,
    memory_mb: int,
    settings: Settings,
    time: str,
) -> tuple[float, list[str]]:
    """Return the expected memory in bytes, and a warning if it is near the limit of the job.

    Parameters
    ----------
    time
        Phrase for the expected time, for the error.

    Raises
    ------
    Problem
        It is above the limit.
    """
    estimate = algorithm.memory(tasks, params)
    expected, limit = expected_memory(estimate), float(memory_mb * MIB)
    name = f"'memory_mb' = {memory_mb}"
    total = psutil.virtual_memory().total
    if not settings.scheduler_url and total < limit:  # the workers are on this machine
        limit, name = float(total), "the memory of this machine"
    if expected + (UNCERTAINTY - 1) * estimate.n_bytes <= limit:
        return expected, []
    need = f"{algorithm.name} needs {estimate.describe()}, and {name} allows {describe_size(limit)}"
    if expected <= limit:
        return expected, [f"{need}; if the job fails for lack of memory, {estimate.remedy}"]
    needed_mb = math.ceil(MARGIN * expected / MIB)
    remedy = f"{estimate.remedy}, or set 'memory_mb' to {needed_mb} where a machine has as much"
    detail = f"{need}; it would take {time}: {remedy}"
    entry = {
        "code": "exceeds-memory",
        "pointer": "/memory_mb",
        "detail": detail,
        "expected_bytes": round(expected),
        "limit_bytes": round(limit),
    }
    raise Problem("exceeds-memory", detail, errors=[entry])
