"""Grouped multi-task feature learning (GMTL): groups of tasks that share features within each.

    min over W and groups g of tasks: Σ_t ‖y_t − X_tw_t − b_t‖² + γ Σ_g ‖W_g‖_*²

with the trace norm ‖·‖_* of the functions of a group, so that each group has a subspace of its own
(eq. 4). With one group it is convex multi-task feature learning. The paper relaxes the groups to
weights and takes gradient steps; here they stay discrete: with the groups fixed, W is the solution
of a convex problem, to a relative duality gap, and with W fixed, single functions move to the group
that lowers the penalty most. Neither step raises the objective, and the best of several starts is
kept; the optimum over groups is not certain. A step for W costs one product per task and the
singular values of each group, O(Td min(T, d)).

Reference: Kang, Grauman, Sha, *Learning with whom to share in multi-task feature learning*, ICML
2011, https://icml.cc/2011/papers/344_icmlpaper.pdf
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from algorithms.baselines.gmtl.grouping import improved, numbered, starts
from algorithms.baselines.gmtl.params import GMTLParams
from algorithms.baselines.gmtl.penalty import GroupedTraceNorm, Groups
from algorithms.baselines.gmtl.work import estimate_gmtl
from algorithms.baselines.linear.baseline import prepare_design
from algorithms.baselines.linear.choice import column_variance
from algorithms.baselines.linear.clustered import (
    COPIED,
    ClusteredBaseline,
    gap_warnings,
    names_of_functions,
)
from algorithms.families.linear.model import LinearModel
from algorithms.families.linear.penalised import SquaredLoss
from algorithms.interface.algorithm import Baseline, PreparedFold
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.arrays import Array
from algorithms.solvers.proximal_gradient import ProximalState

#: Relative duality gap of W while groups are searched.
_SEARCH_TOLERANCE = 1e-3
#: Limit on the fits of W from one start; a search takes few.
_MAX_ROUNDS = 30


@dataclass(frozen=True, slots=True, eq=False)
class _Grouping:
    """Groups (T,) with the solution for them."""

    groups: Groups
    end: ProximalState


class GMTL(ClusteredBaseline[GMTLParams]):
    """Grouped multi-task feature learning."""

    name = "gmtl"
    title = "Grouped multi-task feature learning"
    summary = (
        "Linear functions of tasks in groups that are not known before: the functions of a group "
        "share a few directions, and other groups have other directions. The groups are the best "
        "of several starts."
    )
    reference = "Kang, Grauman, Sha (2011), https://icml.cc/2011/papers/344_icmlpaper.pdf"
    baselines = (
        Baseline("ridge", "single_task", COPIED, {"form": "task"}),
        Baseline("ridge", "pooled", COPIED, {"form": "pooled"}),
        Baseline("cmtl", "multi_task", COPIED),
    )
    Params = GMTLParams
    number = "n_groups"

    def work(self, summaries: Sequence[TaskSummary], params: GMTLParams) -> WorkEstimate:
        """Return the work of the searches for groups, and of the selection."""
        return estimate_gmtl(summaries, params)

    def fit(
        self, tasks: TaskSet, params: GMTLParams, *, trace: Trace, rng: np.random.Generator
    ) -> LinearModel:
        """Return the functions, for the given or selected γ and number of groups."""
        self.check(tasks.summaries(), params)
        fit_info: dict[str, Any] = {"params": params.model_dump(mode="json")}
        warnings: tuple[str, ...] = ()
        if params.selection == "cv":
            params, chosen, warnings = self.select(tasks, params, trace=trace, rng=rng)
            fit_info |= chosen
        problem = _Problem(tasks, params)
        design, names = problem.design, problem.names
        solution = problem.solve(params, trace=trace, rng=rng)
        end = solution.end
        by_name = np.argsort(names)
        groups = np.empty(len(names), dtype=np.intp)
        groups[by_name] = numbered(solution.groups[by_name])
        fit_info |= {
            "gamma": params.gamma,
            "n_groups": params.n_groups,
            "objective": end.objective * design.target_unit**2,
            "relative_gap": end.residual,
            "groups": dict(zip(names, groups.tolist(), strict=True)),
        }
        warnings = (*gap_warnings(end, tolerance=params.tolerance), *warnings)
        return self.model_of(
            tasks, design, end.W, params=params, fit_info=fit_info, warnings=warnings
        )

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: GMTLParams, *, rng: np.random.Generator
    ) -> PreparedFold[GMTLParams, LinearModel]:
        """Return a fold with one loss, and one solution for a single group for each γ."""
        self.check(train.summaries(), params)
        problem = _Problem(train, params)

        def fit(candidate: GMTLParams, trace: Trace) -> LinearModel:
            end = problem.solve(candidate, trace=trace, rng=deepcopy(rng)).end
            return self.model_of(train, problem.design, end.W, params=candidate, fit_info={})

        return PreparedFold(fit, test)


class _Problem:
    """The squared loss of all tasks, with the last solution for a single group.

    Attributes
    ----------
    names
        Name of each function: the name of its task, with the class if there are several.
    """

    def __init__(self, tasks: TaskSet, params: GMTLParams) -> None:
        self.design = prepare_design(tasks, params)
        self.names = names_of_functions(self.design)
        self._loss = SquaredLoss.of(self.design, centre=params.fit_intercept)
        self._unit = column_variance(self.design)
        self._single: tuple[float, ProximalState] | None = None

    def solve(self, params: GMTLParams, *, trace: Trace, rng: np.random.Generator) -> _Grouping:
        """Return the best groups of all starts, with the solution for them."""
        n_groups = min(params.n_groups, self._loss.shape[0])
        coarse = StoppingRule(max(_SEARCH_TOLERANCE, params.tolerance), params.max_iter)
        best = self._single_group(params, coarse, trace=trace)
        if n_groups > 1:
            order = np.argsort(self.names)
            tried = starts(best.end.W, order, n_groups=n_groups, n_starts=params.n_starts, rng=rng)
            W = best.end.W
            for which, first in enumerate(tried):
                groups = first
                for fit in range(_MAX_ROUNDS):
                    loop = f"start {which + 1}, fit {fit + 1}"
                    end = self._fit(params, groups, W, coarse, trace=trace, loop=loop)
                    if end.objective < best.end.objective:
                        best = _Grouping(groups, end)
                    moved = improved(end.W, groups, n_groups=n_groups)
                    if np.array_equal(moved, groups):
                        break
                    groups = moved
        stopping = StoppingRule(params.tolerance, params.max_iter)
        end = self._fit(params, best.groups, best.end.W, stopping, trace=trace, loop="descent")
        return _Grouping(best.groups, end)

    def _single_group(
        self, params: GMTLParams, stopping: StoppingRule, *, trace: Trace
    ) -> _Grouping:
        """Return the solution for one group, which candidates of the same γ share.

        It starts at zero: from another start, the search for groups could end elsewhere.
        """
        groups = np.zeros(self._loss.shape[0], dtype=np.intp)
        if self._single is None or self._single[0] != params.gamma:
            W = np.zeros(self._loss.shape)
            end = self._fit(params, groups, W, stopping, trace=trace, loop="one group")
            self._single = params.gamma, end
        return _Grouping(groups, self._single[1])

    def _fit(
        self,
        params: GMTLParams,
        groups: Groups,
        W: Array,
        stopping: StoppingRule,
        *,
        trace: Trace,
        loop: str,
    ) -> ProximalState:
        penalty = GroupedTraceNorm(params.gamma * self._unit, groups)
        return self._loss.minimise(penalty, W, stopping=stopping, trace=trace, loop=loop)
