"""Expected work of latent variable models.

An iteration with r active rows takes O(r³ + r² min(r, D)), the projection of a row O(r²) for each
of some steps. The number of iterations depends on the data: most fits of benchmarks take
between 50 and 600.
"""

from collections.abc import Sequence
from typing import Final

from algorithms.families.latent.params import LatentParams
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import FIT_STEPS, WorkEstimate, n_rows

#: Iterations of an optimisation, and steps of each.
N_ITERATIONS: Final = 160.0
ITERATION_STEPS: Final = 50
#: Numbers that the projection of a row reads, for each active row and for each pair of them.
ROW_VALUES, PAIR_VALUES = 300.0, 2.5
#: Steps of the model of a task.
TASK_STEPS: Final = 400


def active_rows(n_samples: int, params: LatentParams) -> int:
    """Return the number of active rows of a task with some rows."""
    return min(params.r, n_samples)


def estimate_optimisation(n_active: int, params: LatentParams, *, n_features: int) -> WorkEstimate:
    """Return the work of an optimisation of the latents of some active rows."""
    n_iterations = min(N_ITERATIONS, params.max_iter)
    r, L = n_active, min(params.L, n_features)
    per_iteration = 3.0 * r**3 + r**2 * (4.0 * min(r, n_features) + 6.0 * L)
    return WorkEstimate(
        f"{n_iterations:.0f} iterations with {r:,} active rows",
        "use a smaller 'r' or 'max_iter', or a larger 'tolerance'",
        flops=n_iterations * per_iteration,
        steps=n_iterations * ITERATION_STEPS + TASK_STEPS,
    )


def estimate_projection(
    summaries: Sequence[TaskSummary], n_active: int, *, n_features: int
) -> WorkEstimate:
    """Return the work of the latents of all rows of some tasks."""
    n = n_rows(summaries)
    return WorkEstimate(
        f"the projection of {n:,} rows",
        "use fewer rows, or a smaller 'r'",
        flops=2.0 * n * n_active * n_features,
        values=n * (ROW_VALUES * n_active + PAIR_VALUES * n_active**2 + 10.0 * n_features),
        steps=FIT_STEPS,
    )
