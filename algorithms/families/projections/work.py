"""Expected work of discriminant projections.

A task of n rows and d columns takes O(n d min(n, d)) for the basis of its span, and O(r³) for each
eigendecomposition in it. A selection projects the rows of a fold once, and then fits and scores
each candidate, which takes the distances of all held-out rows to all training rows.
"""

from collections.abc import Sequence
from typing import Final

from algorithms.families.projections.params import ProjectionParams
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import (
    EIGEN_FLOPS,
    FIT_STEPS,
    SVD_FLOPS,
    WorkEstimate,
    count_candidates,
    estimate_selection,
    without_fold,
)

#: Decompositions of smaller matrices are slower, up to this factor.
SMALL_ORDER: Final = 400
MAX_SLOWDOWN: Final = 4.0
#: Steps of the decomposition of a task, of an eigendecomposition in its span, and of the
#: predictions of a candidate for a task.
TASK_STEPS, EIGEN_STEPS, PREDICTION_STEPS = 100, 25, 80
#: Numbers that pass through memory for each distance between two rows.
DISTANCE_VALUES: Final = 2.0
_REMEDY: Final = "use fewer rows, columns or tasks"


def estimate_projection(
    summaries: Sequence[TaskSummary], params: ProjectionParams, *, n_eigen: float
) -> WorkEstimate:
    """Return the work of a fit, with the selection of parameters if there is one.

    Parameters
    ----------
    n_eigen
        Number of eigendecompositions of each task.
    """
    final = estimate_spans(summaries) + estimate_directions(summaries, n_eigen=n_eigen)
    if params.selection == "given":
        return final
    fold = without_fold(summaries, params.n_folds)
    fold_work = estimate_directions(fold, n_eigen=n_eigen / 2)  # started from other candidates
    fold_work += estimate_predictions(fold, summaries)
    return estimate_selection(
        fold_work,
        final + estimate_spans(fold).times(params.n_folds),
        n_candidates=count_candidates(params),
        n_folds=params.n_folds,
    )


def estimate_spans(summaries: Sequence[TaskSummary]) -> WorkEstimate:
    """Return the work of the singular value decompositions of all tasks."""
    sizes = [(summary.n_samples, summary.n_features) for summary in summaries]
    return WorkEstimate(
        f"{len(summaries):,} singular value decompositions of up to "
        f"{max(n for n, _ in sizes):,} rows and {max(d for _, d in sizes):,} columns",
        _REMEDY,
        flops=sum(_slowdown(min(n, d)) * SVD_FLOPS * n * d * min(n, d) for n, d in sizes),
        steps=FIT_STEPS + TASK_STEPS * len(summaries),
    )


def estimate_directions(summaries: Sequence[TaskSummary], *, n_eigen: float) -> WorkEstimate:
    """Return the work of the eigendecompositions in the spans of all tasks."""
    ranks = [min(summary.n_samples, summary.n_features) for summary in summaries]
    return WorkEstimate(
        f"{n_eigen * len(ranks):,.0f} eigendecompositions of up to {max(ranks):,} columns",
        _REMEDY,
        flops=n_eigen * sum(_slowdown(r) * EIGEN_FLOPS * r**3 for r in ranks),
        steps=n_eigen * EIGEN_STEPS * len(ranks),
    )


def estimate_predictions(
    fold: Sequence[TaskSummary], summaries: Sequence[TaskSummary]
) -> WorkEstimate:
    """Return the work of predictions for the held-out rows of a fold."""
    pairs = [
        train.n_samples * max(summary.n_samples - train.n_samples, 1)
        for train, summary in zip(fold, summaries, strict=True)
    ]
    return WorkEstimate(
        f"{sum(pairs):,} distances of rows",
        "use the classifier 'nearest-centroid'",
        values=DISTANCE_VALUES * sum(pairs),
        steps=PREDICTION_STEPS * len(pairs),
    )


def _slowdown(order: int) -> float:
    return min(max(SMALL_ORDER / order, 1.0), MAX_SLOWDOWN)
