"""Expected work of grouped multi-task feature learning.

Each start of the search for groups compares, for every function and group, the singular values of
the group with and without the function.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Final

from algorithms.baselines.gmtl.params import GMTLParams
from algorithms.families.linear.work import (
    estimate_linear_predictions,
    estimate_preparation,
    estimate_proximal,
    n_coordinates,
)
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import SVD_FLOPS, WorkEstimate, n_outputs, without_fold

#: Comparisons of all functions with all groups in each start, and the calls of a decomposition.
ROUNDS: Final = 1.2
DECOMPOSITION_CALLS: Final = 10
#: Numbers that pass through memory for each product of two columns of a pair of functions.
LINKAGE_VALUES: Final = 0.2


def estimate_gmtl(summaries: Sequence[TaskSummary], params: GMTLParams) -> WorkEstimate:
    """Return the work of the given or of all candidate numbers of groups, and of the final fit."""
    final = estimate_preparation(summaries) + _fit(summaries, params, params.n_groups)
    if params.selection == "given":
        return final
    fold = without_fold(summaries, params.n_folds)
    fits = reduce(add, [_fit(fold, params, n) for n in sorted(set(params.groups_grid))])
    fits += estimate_linear_predictions(fold).times(len(set(params.groups_grid)))
    n = len(set(params.grid)) * params.n_folds
    selection = replace(
        fits.times(n),
        largest=f"{n} fits of {len(set(params.groups_grid))} numbers of groups, "
        f"each {fits.largest}",
        remedy="use fewer candidates, folds or 'n_starts'",
    )
    return selection + estimate_preparation(fold).times(params.n_folds) + final


def _fit(summaries: Sequence[TaskSummary], params: GMTLParams, n_groups: int) -> WorkEstimate:
    descent = estimate_proximal(summaries, max_iter=params.max_iter)
    m, q = n_outputs(summaries), n_coordinates(summaries)
    n_groups = min(n_groups, m)
    if n_groups == 1:
        return descent
    size = m / n_groups
    n_decompositions = params.n_starts * ROUNDS * 2 * m * n_groups
    return descent + WorkEstimate(
        f"{n_decompositions:,.0f} decompositions of groups of {m:,} functions",
        "use fewer 'n_starts' or 'n_groups'",
        flops=n_decompositions * SVD_FLOPS * size * q * min(size, q),
        values=LINKAGE_VALUES * m**2 * q**2,
        steps=n_decompositions * DECOMPOSITION_CALLS,
    )
