"""MTDA: discriminant analysis of several tasks whose feature spaces differ.

Task i has rows X_i (n_i, d_i) with classes y_i, and scatter matrices S_bⁱ, S_wⁱ, S_tⁱ = S_bⁱ + S_wⁱ
divided by n_i. Learned are projections U_i = W_i P, W_iᵀW_i = I of d' columns, PᵀP = I of d:

    max  Σ_i tr(U_iᵀ S_bⁱ U_i) / Σ_i tr(U_iᵀ S_tⁱ U_i)   over W_i (d_i, d'), P (d', d)   (eq. 3)

and a row takes the label of its nearest neighbour in the d-dimensional space.

What eq. 3 is, each point with its tests in ``tests/algorithms/test_mtda.py``:

1. *P and d' are redundant.* Only U_i = W_i P enters. Let P be any (d', d) with PᵀP = I and U_i any
   (d_i, d) with orthonormal columns, d' <= d_i; complete them to [P, P⊥] and [U_i, V_i], of d'
   columns. Then W_i = [U_i, V_i][P, P⊥]ᵀ has WᵀW = [P, P⊥][P, P⊥]ᵀ = I and W_i P = U_i. So the U_i
   are free of each other, and what ties the tasks is one number: the ratio.
   ``test_any_projection_is_reached_with_any_common_part``
   ``test_the_tasks_are_tied_by_the_ratio_alone``
2. *The global optimum is within reach.* F(α) = Σ_i max_U tr(Uᵀ(S_bⁱ - αS_tⁱ)U) is convex and
   falls; its root is the optimum of eq. 3. Newton's method on F: U_i are the top-d eigenvectors
   of S_bⁱ - αS_tⁱ, α their ratio. Four to seven steps. The paper claims a local maximum only.
   ``test_alpha_is_that_of_the_full_spaces``
   ``test_no_orthonormal_projections_have_a_larger_ratio``
   ``test_newton_needs_few_steps_and_climbs``
3. *Theorem 1 of the paper fails* for its "any orthogonal Q"; see
   :mod:`algorithms.mtda.alternation` for the counterexample and the mended procedure. Table 1 as
   printed is not monotone and depends on d'; mended, it climbs to the optimum of point 2.
   ``test_theorem_1_fails_for_a_turn_that_does_not_commute``
   ``test_theorem_1_needs_both_in_descending_order``
   ``test_theorem_1_mended_is_the_sum_of_products``
   ``test_table_1_as_printed_is_not_monotone_and_depends_on_the_intermediate_dimension``
   ``test_the_alternation_climbs_to_the_exact_optimum``
4. *Degenerate regime.* The ratio is 1 iff no U_i has any within-class scatter, and some has
   between-class scatter. n_i independent rows in d_i >= n_i - 1 features leave S_w with a null
   space of c_i - 1 directions in their span. Thus for d <= c_i - 1 and γ = 0 the optimum is
   exactly 1, each task gets its null-space LDA, and nothing is shared; with fillers (point 5) the
   same holds up to d = c_i - 1 + d_i - r. Faces with few images per person are there, and so are
   the experiments of the paper.
   ``test_the_degenerate_regime_is_null_space_lda``
   ``test_fillers_widen_the_degenerate_regime``
   ``test_faces_of_few_images_are_in_the_degenerate_regime``
5. *Span reduction.* Outside the span of a task's rows S_bⁱ and S_tⁱ are 0. In the span, of
   dimension r <= n_i - 1, S_t is diagonal and S_b has a factor of c_i rows. S_b - αS_t has
   eigenvalue 0 outside, so that nothing is lost in the span iff d eigenvalues there are >= 0, or
   it is the whole space. Otherwise the optimum takes *fillers* outside in place of negative
   directions inside (``null="keep"``). All training rows have the coordinate 0 in a filler: it
   adds the same to all distances of a new row, and changes no prediction. ``null="exclude"``
   takes the negative directions, which makes another classifier.
   ``test_nothing_is_lost_in_the_span_iff_d_eigenvalues_are_not_negative``
   ``test_fillers_are_constant_on_the_training_rows_and_change_no_prediction``
   ``test_excluding_the_null_space_takes_negative_directions_of_the_span``
6. *Shifts.* a_iI and b_iI of eq. 5, and the ridge ρI, move all eigenvalues equally.
   ``test_ridge_and_shifts_move_all_eigenvalues_alike``

What is added: S_t is shrunk, S_t + ρI with ρ = γ tr(S_t)/d_i, since with few rows the ratio on the
training rows says nothing; each task is divided by one number so that tr S_t = 1, since the sum
over tasks depends on their units; γ and d can be chosen by cross-validation of the training rows.

*Does sharing α help?* On faces it does not. ``benchmarks/mtda_faces.py``, every parameter chosen
inside the training images, 20 splits, mean error over ORL, Yale and PIE of ten persons:

    images per person                          2      3      4      5
    LDA-rt, parameters chosen per task       .403   .276   .212   .160
    LDA-tr, parameters chosen per task       .498   .275   .204   .153
    null-space LDA                           .434   .260   .202   .157
    Aggregate                                .464   .382   .342   .308
    MTDA                                     .482   .250   .197   .151
    LDA-rt, parameters chosen for all tasks  .380   .261   .205   .154
    LDA-tr, parameters chosen for all tasks  .484   .250   .197   .151
    MTDA, the paper's setting                .429   .288   .231   .184

MTDA equals LDA with a ratio per task as soon as d and γ are chosen for all tasks at once: |t| of
the means over tasks <= 1.8; of twelve cells of single tasks two reach 2, both with two images
(Yale +2.0, PIE -3.6: .681 against .693). What it has over LDA-tr comes from the common choice,
which is less noisy, and not from the common ratio. It beat the best single-task method by at most
.010 (three images, t = -2.2; four and five, |t| <= 1.2). With two images per person, where
cross-validation trains on one image per class, it was far worse than LDA-rt. In the paper's
setting it is LDA-tr, error for error.

*The mean hides the databases.* Each by itself, three and five images per person, six splits,
standard errors .01 to .04; LDA with parameters per task:

                     ORL, 40 persons   Yale, 15 persons   PIE, 10 persons
    LDA-rt             .125   .057       .372   .224        .330   .185
    LDA-tr             .087   .033       .406   .222        .341   .191
    null-space LDA     .093   .033       .399   .204        .328   .194
    Aggregate          .159   .076       .489   .450        .467   .397
    MTDA               .096   .039       .346   .204        .313   .189

Aggregate is last on each here, by a factor of two on Yale and PIE with five images. That does not
hold for all faces: on PIE with 68 persons, which these data are not, it has been found best by far.
Compare on your own data.

Cost: a thin singular value decomposition O(n²d) per task, then O(r³) per task and step; 23 to 108
times less than in the full spaces of faces (``benchmarks/mtda_speed.py``).

Reference: Zhang, Yeung, *Multi-Task Learning in Heterogeneous Feature Spaces*, AAAI 2011,
doi:10.1609/aaai.v25i1.7909
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.algorithm import Baseline, Role
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtda.alternation import alternate, parts_from
from algorithms.mtda.params import MTDAParams
from algorithms.numerics.eigen import complete
from algorithms.numerics.trace_ratio import leading_directions
from algorithms.projections.algorithm import ProjectionAlgorithm
from algorithms.projections.model import (
    ProjectionClassifier,
    adapt_model,
    dimension_warnings,
    no_variance_warnings,
)
from algorithms.projections.parts import TaskProjection, build_part
from algorithms.projections.scatters import Scatters, estimate_scatters
from algorithms.solvers.dinkelbach import dinkelbach

Array = NDArray[np.float64]

#: From this ratio on the classes are points, and the tasks share nothing.
COLLAPSED = 1.0 - 1e-9


def _baseline(name: str, role: Role, *shares: str) -> Baseline:
    common = ("standardise", "classifier", "n_folds", "d_grid")
    return Baseline(name, role, copied_params=(*common, *shares), values={"selection": "cv"})


class MTDA(ProjectionAlgorithm[MTDAParams]):
    """Multi-task discriminant analysis."""

    name = "mtda"
    title = "Multi-task discriminant analysis"
    summary = (
        "Discriminant projections of tasks whose features and classes may all differ, tied by one "
        "ratio of between-class to total variance. On faces the tie did not pay: compare with "
        "lda-rt and lda-tr on your own data."
    )
    reference = "Zhang and Yeung (2011), doi:10.1609/aaai.v25i1.7909"
    baselines = (
        _baseline("lda-rt", "single_task", "gamma_grid"),
        _baseline("lda-tr", "single_task", "gamma_grid"),
        _baseline("lda-null", "single_task"),
        _baseline("aggregate", "pooled", "gamma_grid"),
    )
    Params = MTDAParams

    def _fit(
        self, tasks: TaskSet, params: MTDAParams, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return the projections that maximise eq. 3, the parameters as given or chosen."""
        trace.expect_loops(2 if params.selection == "cv" else 1)
        ordered = tasks.by_name()
        asked = params
        params, fit_info = self.choose(ordered, params, trace=trace, rng=rng)
        every = {
            task.name: estimate_scatters(task, standardise=params.standardise) for task in ordered
        }
        alpha, P = _solve(list(every.values()), params, trace=trace, rng=rng)
        parts = {name: _part(task, alpha, P, params) for name, task in every.items()}
        return ProjectionClassifier(
            algorithm=self.name,
            tasks=tasks.names,
            parts=tuple(parts[name] for name in tasks.names),
            P=P,
            fit_info={
                "params": params.model_dump(mode="json"),
                "alpha": alpha,
                "by_task": {},
                **fit_info,
            },
            warnings=(
                *_warnings(every, parts, params, trace=trace, alpha=alpha),
                *self.end_warnings(
                    asked, params, {"d": max(one.dimensions(params.null) for one in every.values())}
                ),
            ),
        )

    def adapt_task(
        self, model: ProjectionClassifier, task: Task, *, trace: Trace
    ) -> ProjectionClassifier:
        """Return the model with one more task: the top-d of S_b - αS_t, the others and α frozen."""
        del trace
        params = self.params_for(model, task)
        new = estimate_scatters(task, standardise=params.standardise)
        part = _part(new, model.fit_info["alpha"], model.P, params)
        warnings = dimension_warnings({task.name: (params.d, part.U.shape[1])})
        return adapt_model(model, task.name, part, fit_info={}, warnings=warnings)


def _solve(
    tasks: Sequence[Scatters], params: MTDAParams, *, trace: Trace, rng: np.random.Generator
) -> tuple[float, Array | None]:
    """Return the ratio α, and P (d', d) where the solver has one."""
    if params.solver == "exact":
        pencils = [task.pencil(d=params.d, gamma=params.gamma, null=params.null) for task in tasks]
        alpha = dinkelbach(
            pencils,
            trace=trace,
            loop="ratio",
            max_iter=params.max_iter,
            tolerance=params.tolerance,
        )
        return alpha, None
    room = min(task.dimensions(params.null) for task in tasks)
    d = min(params.d, room)
    state = alternate(
        [task.pencil(d=d, gamma=params.gamma, null=params.null) for task in tasks],
        d_prime=min(max(params.d_prime, d), room),
        max_iter=params.max_iter,
        tolerance=params.tolerance,
        trace=trace,
        rng=rng,
    )
    return state.objective, state.P


def _part(task: Scatters, alpha: float, P: Array | None, params: MTDAParams) -> TaskProjection:
    """Return U_i at the ratio α, and with P the W_i of U_i = W_i P.

    Ties are broken alike for both solvers. The columns of W_i beyond the first d of [P, P⊥] are
    arbitrary: W_i and P tell nothing that U_i does not.
    """
    d = params.d if P is None else P.shape[1]
    pencil = task.pencil(d=d, gamma=params.gamma, null=params.null)
    U = task.lift(leading_directions(pencil, alpha), k=max(pencil.k, 1))
    W = None
    if P is not None and U.shape[1] == P.shape[1] and P.shape[0] <= task.n_features:
        W = parts_from(complete(U.T, P.shape[0]).T, P)
    return build_part(task, U, classifier=params.classifier, W=W)


def _warnings(
    tasks: Mapping[str, Scatters],
    parts: Mapping[str, TaskProjection],
    params: MTDAParams,
    *,
    trace: Trace,
    alpha: float,
) -> tuple[str, ...]:
    found = [
        *dimension_warnings({name: (params.d, part.U.shape[1]) for name, part in parts.items()}),
        *no_variance_warnings([name for name, task in tasks.items() if task.rank == 0], len(tasks)),
    ]
    if alpha >= COLLAPSED:
        found.append(
            "the common ratio is 1: every class is one point on the training rows, each task has "
            "its null-space LDA, and nothing is shared; raise gamma or d"
        )
    if trace.stop_reason == "max_iter":
        found.append(
            f"stopped after {params.max_iter} iterations before the ratio settled to "
            f"{params.tolerance:g}; raise max_iter"
        )
    return tuple(found)
