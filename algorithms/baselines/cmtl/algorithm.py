"""Clustered multi-task learning (CMTL): functions of tasks that form clusters, by a convex penalty.

    min Σ_t ‖y_t − X_tw_t − b_t‖² + ε_M T‖w̄‖² + ε_B Σ_c T_c‖w̄_c − w̄‖² + ε_W Σ_c Σ_{t∈c} ‖w_t − w̄_c‖²

for r unknown clusters c of tasks is a problem of discrete optimisation. It has the form
tr(WΠΣ⁻¹ΠWᵀ) with a Σ whose eigenvalues are 1/ε_W and r − 1 times 1/ε_B. The convex relaxation
minimises over all Σ with eigenvalues between these bounds and the same trace (section 3.2), which
leaves a spectral penalty of W (:mod:`algorithms.baselines.cmtl.penalty`). Clusters are then read
off W by Ward's method, for information only.

With r = 1, or ε_B = ε_W, this is mean-regularised learning. Solved by accelerated proximal gradient
to a relative duality gap; a step costs one product per task and a singular value decomposition of
W, O(Td min(T, d)).

Reference: Jacob, Bach, Vert, *Clustered multi-task learning: a convex formulation*, NIPS 2008,
arXiv:0809.2085
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from algorithms.baselines.cmtl.params import CMTLParams
from algorithms.baselines.cmtl.penalty import ClusterPenalty
from algorithms.baselines.linear.baseline import prepare_design
from algorithms.baselines.linear.choice import column_variance
from algorithms.baselines.linear.clustered import (
    COPIED,
    ClusteredBaseline,
    gap_warnings,
    names_of_functions,
)
from algorithms.families.linear.design import Design
from algorithms.families.linear.model import LinearModel
from algorithms.families.linear.penalised import SquaredLoss
from algorithms.families.linear.work import estimate_penalised
from algorithms.interface.algorithm import Baseline, PreparedFold
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.interface.work import WorkEstimate, count_candidates
from algorithms.numerics.arrays import Array
from algorithms.solvers.proximal_gradient import ProximalState


class CMTL(ClusteredBaseline[CMTLParams]):
    """Clustered multi-task learning by its convex relaxation."""

    name = "cmtl"
    title = "Clustered multi-task learning"
    summary = (
        "Linear functions of tasks that form a few clusters, which are not known before: functions "
        "of one cluster are near each other. A duality gap bounds the distance of every result "
        "from the optimum."
    )
    reference = "Jacob, Bach, Vert (2008), https://arxiv.org/abs/0809.2085"
    baselines = (
        Baseline("ridge", "single_task", COPIED, {"form": "task"}),
        Baseline("ridge", "pooled", COPIED, {"form": "pooled"}),
        Baseline("mean-regularised", "multi_task", COPIED),
    )
    Params = CMTLParams
    number = "n_clusters"

    def work(self, summaries: Sequence[TaskSummary], params: CMTLParams) -> WorkEstimate:
        """Return the work of the proximal gradient steps, and of the selection."""
        return estimate_penalised(
            summaries,
            n_candidates=count_candidates(params) if params.selection == "cv" else 0,
            n_folds=params.n_folds,
            max_iter=params.max_iter,
        )

    def fit(
        self, tasks: TaskSet, params: CMTLParams, *, trace: Trace, rng: np.random.Generator
    ) -> LinearModel:
        """Return the functions, for the given or selected γ and number of clusters."""
        self.check(tasks.summaries(), params)
        trace.expect_loops(1 + (params.selection == "cv"))
        fit_info: dict[str, Any] = {"params": params.model_dump(mode="json")}
        warnings: tuple[str, ...] = ()
        if params.selection == "cv":
            params, chosen, warnings = self.select(tasks, params, trace=trace, rng=rng)
            fit_info |= chosen
        design = prepare_design(tasks, params)
        penalty = _penalty(design, params)
        loss = SquaredLoss.of(design, centre=params.fit_intercept)
        end = _solve(loss, penalty, params, np.zeros(loss.shape), trace=trace)
        fit_info |= {
            "gamma": params.gamma,
            "n_clusters": penalty.n_clusters,
            "epsilon_within": penalty.within * design.row_unit**2,
            "objective": end.objective * design.target_unit**2,
            "relative_gap": end.residual,
            "clusters": _clusters(design, end.W, penalty.n_clusters),
        }
        warnings = (*gap_warnings(end, tolerance=params.tolerance), *warnings)
        return self.model_of(
            tasks, design, end.W, params=params, fit_info=fit_info, warnings=warnings
        )

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: CMTLParams, *, rng: np.random.Generator
    ) -> PreparedFold[CMTLParams, LinearModel]:
        """Return a fold with one loss for all candidates, each started from the last solution."""
        del rng
        self.check(train.summaries(), params)
        design = prepare_design(train, params)
        loss = SquaredLoss.of(design, centre=params.fit_intercept)
        W = np.zeros(loss.shape)

        def fit(candidate: CMTLParams, trace: Trace) -> LinearModel:
            nonlocal W
            W = _solve(loss, _penalty(design, candidate), candidate, W, trace=trace).W
            return self.model_of(train, design, W, params=candidate, fit_info={})

        return PreparedFold(fit, test, has_warm_starts=True)


def _solve(
    loss: SquaredLoss, penalty: ClusterPenalty, params: CMTLParams, start: Array, *, trace: Trace
) -> ProximalState:
    """Return the state at the optimal W, from a start (T, q)."""
    stopping = StoppingRule(params.tolerance, params.max_iter)
    return loss.minimise(penalty, start, stopping=stopping, trace=trace, loop="descent")


def _penalty(design: Design, params: CMTLParams) -> ClusterPenalty:
    within = params.gamma * column_variance(design)
    return ClusterPenalty(
        within=within,
        between=params.between_share * within,
        common=params.common_share * within,
        n_clusters=min(params.n_clusters, sum(design.sizes)),
    )


def _clusters(design: Design, W: Array, n_clusters: int) -> dict[str, int]:
    """Return the cluster of each function, numbered by first occurrence."""
    names = names_of_functions(design)
    if len(W) == 1:
        return dict.fromkeys(names, 0)
    clusters = fcluster(linkage(W, method="ward"), n_clusters, criterion="maxclust").tolist()
    number = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    return {name: number[cluster] for name, cluster in zip(names, clusters, strict=True)}
