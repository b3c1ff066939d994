"""A part of a job: one or several candidates of one method, judged on some splits."""

from dataclasses import dataclass
from typing import Any, Final

from algorithms.interface.algorithm import Algorithm

#: Kind of a plan that calls a model over a dataset.
INFER: Final = "infer"
ADAPT: Final = "adapt"

Plan = dict[str, Any]
Algo = Algorithm[Any, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A part to be queued.

    Parameters
    ----------
    params
        Of the method, or of the first of its candidates.
    plan
        What ``carry_out`` does, as JSON.
    """

    algorithm: str
    params: dict[str, Any]
    plan: Plan
