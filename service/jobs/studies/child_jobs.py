"""Child jobs: each evaluates one or several candidates of one method on some splits.

Workers import this module, but no algorithms, which would take longer than the rest of their start.
"""

from dataclasses import dataclass
from typing import Any, Final

#: Kind of a plan that applies a model to a dataset.
INFER: Final = "infer"
#: Kind of a plan that adds tasks to a model.
ADAPT: Final = "adapt"

#: Marks the plan of an automatic choice; also the name of the algorithm of such a job.
AUTOMATIC: Final = "auto"
#: Limit on the child jobs of a comparison; with more splits, one child job scores several.
MAX_CHILD_JOBS: Final = 200

Plan = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChildJob:
    """A child job to be queued.

    Parameters
    ----------
    params
        Parameters of the method, or of its first candidate.
    plan
        Input of :func:`service.jobs.studies.plans.run_child_job`, as JSON.
    """

    algorithm: str
    params: dict[str, Any]
    plan: Plan
