"""What linear baselines share whose convex penalty has a number of clusters or groups of tasks."""

from typing import Any, ClassVar

import numpy as np

from algorithms.baselines.linear.baseline import LinearBaseline, P, losses_of
from algorithms.evaluation.selection.failures import failure_warnings
from algorithms.families.linear.design import Design
from algorithms.families.linear.targets import names_of_columns
from algorithms.interface.params import end_warnings
from algorithms.interface.target_scales import scales_by_task
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.solvers.proximal_gradient import ProximalState

#: Parameters that their baselines copy.
COPIED = ("standardise", "fit_intercept", "scale_targets")


class ClusteredBaseline(LinearBaseline[P]):
    """Base class: a linear function for each task, in clusters that are not known before.

    Attributes
    ----------
    number
        Name of the parameter with the number of clusters.
    """

    number: ClassVar[str]

    def select(
        self, tasks: TaskSet, params: Any, *, trace: Trace, rng: np.random.Generator
    ) -> tuple[P, dict[str, Any], tuple[str, ...]]:
        """Return the selected parameters, the results of the selection as JSON, and warnings.

        Of equally good parameters, those with the strongest regularisation and the fewest clusters
        are selected.
        """
        scales = scales_by_task(tasks, params.scale_targets, is_centered=params.fit_intercept)
        large = ("gamma",)
        best, fit_info = self.choose(
            tasks,
            params,
            n_folds=params.n_folds,
            scales=scales,
            prefer_large=large,
            trace=trace,
            rng=rng,
        )
        chosen = {name: getattr(best, name) for name in params.GRIDS}
        losses = losses_of(params, fit_info, prefer_large=large)
        limits = {self.number: len(tasks)}
        ends = end_warnings(params, chosen, limits=limits, losses=losses)
        failed = failure_warnings(fit_info.get("failed_candidates", ()))
        return best, fit_info, (*failed, *ends)


def names_of_functions(design: Design) -> list[str]:
    """Return the name of each function: that of its task, with its class if there are several."""
    return [
        name
        for task, one in zip(design.names, design.targets, strict=True)
        for name in names_of_columns(task, one.classes)
    ]


def gap_warnings(end: ProximalState, *, tolerance: float) -> tuple[str, ...]:
    """Return a warning if a fit ended above the tolerance."""
    if end.residual <= tolerance:
        return ()
    message = f"stopped with a relative duality gap of {end.residual:.1e}"
    return (f"{message}; increase max_iter",)
