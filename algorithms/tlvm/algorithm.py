"""TLVM: a latent variable model of a source task, carried to target tasks.

Columns of rows Y (N, D) are independent given latents X (N, L): y_d ~ N(0, K) with

    K_ij = a exp(-g/2 ‖x_i - x_j‖²) + (w + floor) δ_ij        (eq. 2; or a linear kernel)

Learned from a source are latents X_I of its r most informative rows, and θ = (ln a, ln g, ln w).
For each target with rows Y_t the same descent then goes over θ, X_I and the latents X_tJ of the
target's most informative rows:

    min  -ln N([Y_I; Y_tJ]; 0, K([X_I; X_tJ])) + λ D · Div(N(0, K_aa), N(0, K_bb))    ('joint')

with a and b paired active rows of source and target. A row is put where it is most likely
(eq. 25), and expected at ŷ = YᵀK⁻¹k (eq. 27). Cost of a step: O(r³ + r² min(r, D)).

Steps: 1. centre each task by its own mean, with one scale, the source's. 2. X from PCA, I by the
informative vector machine, L-BFGS over θ and X_I. 3. Project Y_t by the source's model, choose J,
pair. 4. The joint L-BFGS. 5. Predict from the active rows of both.

What was found. Figures are by ``benchmarks/tlvm_transfer.py``: mean of ‖y - ŷ‖ over unseen rows of
the target, five random halves, L = 10, r = 40. (a) USPS digits 3 and 6 to each other digit, (b)
digits 0-4 to 5-9 and back, (c) the faces of Yale to ORL and back; 82 to 200 target rows train.

                                     (a)     (b)     (c)     1-NN error: (b)    (c)
    GP-LVM of the source            4.92    4.47    5.51                .176   .411
    the same, target's mean         3.94    4.41    4.11                .186   .402
    TLVM printed, λ = 1             3.94    4.41    4.09                .188   .408
    TLVM joint, λ = 0               3.04    3.63    3.40                .121   .392
    TLVM joint, λ = 0.1             3.05    3.62    3.41                .128   .387
    TLVM joint, λ = 1               3.07    3.62    3.42                .139   .403
    GP-LVM of the target            2.85    3.51    3.35                .100   .396
    PCA of the target               2.73    3.46    3.25                .089   .363
    pixels                                                              .080   .317

1. *The printed objective (eq. 19) cannot see the target.* X_t enters through the divergence alone,
   which vanishes when X_t is a copy of X, whatever Y_t is: with white noise for a target as well.
   Only θ can change, and nothing asks it to: the result is that of the source's model.
2. *The target's values make the transfer.* 'joint' puts Y_t into the likelihood and beats the
   source's model in every one of 110 units, by 10 to 60 % of its error with the target's mean.
3. *The divergence adds nothing* that these data show, so that the default is λ = 0. Against it the
   error over the twelve cells of 5. is 0.4 % larger with λ = 0.1, 0.8 % with λ = 1, and 0.4 % with
   λ chosen on held-out training rows.
4. *Retraining is as good or better from some 20 to 40 rows on*, and so is PCA: use ``gp-lvm`` or
   ``pca`` there. TLVM divides its capacity between two tasks. So it is for every L: for (a) with
   150 rows and L = 2, 5, 10, 20 the source gives 4.51, 4.26, 3.91, 3.56, joint 3.56, 3.32, 3.02,
   2.66, retrained 3.53, 3.08, 2.83, 2.55, and PCA of the target 3.73, 3.18, 2.71, 2.23.
5. *Where the target has few rows, joint beats the source's model and retraining, but PCA of the
   source with an up-weighted target is as good or better on most data*, and far cheaper: try
   ``transfer-pca`` first. Both are among the baselines. With 5, 20 and 50 target rows, by
   ``benchmarks/tlvm_few_rows.py``, three seeds; unseen digits are of the official test part, voices
   are the Parkinsons recordings of one patient to eight others, with L = 5:

                               (a)              (b)          Yale to ORL         voices
    GP-LVM of the source  4.35 4.11 4.06   4.73 4.52 4.44   3.47 3.31 3.27   2.79 2.31 2.33
    GP-LVM of the target  4.61 3.33 2.97   5.41 4.01 3.58   4.12 3.12 2.75   3.36 1.64 1.40
    TLVM joint, λ = 0     4.07 3.35 3.01   4.37 3.81 3.53   3.28 2.92 2.72   1.99 1.56 1.42
    PCA of the target     4.32 3.34 3.03   5.01 4.09 3.73   3.82 3.05 2.75   2.28 1.49 1.33
    PCA, weight 1         4.22 3.87 3.61   4.52 4.19 3.94   3.27 3.03 2.92   1.73 1.52 1.41
    PCA, weight 10        4.04 3.43 3.13   4.38 3.96 3.68   3.21 2.89 2.71   1.68 1.41 1.30
    PCA, weight 100       3.99 3.34 3.03   4.42 4.04 3.71   3.23 2.97 2.73   1.78 1.45 1.32

   Joint is ahead of weighted PCA by more than the spread over seeds for (b) with 20 and 50 rows
   alone. Complete rows are reconstructed alike by PCA and probabilistic PCA. PCA of the
   target's own rows is ahead of it from 20 rows on where columns are few (voices, 17 of them).
6. *Pairing matters* to a divergence: it compares row i of one side with row i of the other, so
   that permuted rows are no longer equal. 'spectral' needs no pairs. None reconstructs better.
7. X and X_t have one frame only through cross terms of K: 'marginal' (eq. 13 added) leaves them
   in two, so that its target is predicted from its own rows alone.
8. Recognition is no strength of these latents: the nearest neighbour by pixels is right more often.

Misprints of the paper: in eqs. 7 and 8 the fraction in the logarithm is upside down, and in eq. 3
the gradient is at q; from eq. 17 to 18 a constant is lost (-DE), in eq. 19 N should be r; eq. 22
should read -½K⁻¹YYᵀK⁻¹ + (D/2)K_t⁻¹ and (D/2)(K_t⁻¹ - K_t⁻¹KK_t⁻¹); in eq. 23 θ_rbf leaves out
the noise and γ gives -½Δ∘K_f by entries; step 6 of Table 1 minimises over X_t an L without X_t.

Deviations: λ = 0 where the paper has 1; a noise floor, without which active rows are learned by
heart; L-BFGS where the paper has scaled conjugate gradients and alternates.

Reference: Gao, Wang, Li, Tao, *Transfer latent variable model based on divergence analysis*,
Pattern Recognition 44, 2011; GP-LVM: Lawrence, JMLR 2005,
https://jmlr.org/papers/v6/lawrence05a.html; active rows: Lawrence, Seeger, Herbrich, *Fast sparse
Gaussian process methods*, NIPS 2003.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.interface.algorithm import Algorithm, Baseline, Role
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.latent.gp import LatentGP, centred_rows, fit_latent_gp, row_scale
from algorithms.latent.model import (
    LatentModel,
    late_warnings,
    rank_warnings,
    scale_warnings,
)
from algorithms.latent.params import LatentParams
from algorithms.latent.parts import (
    LatentPart,
    build_part,
    labelled_task,
    n_projections,
)
from algorithms.latent.source import SourceParams, choose_source
from algorithms.numerics.threads import limit_blas_threads
from algorithms.tlvm.params import TLVMParams
from algorithms.tlvm.transfer import N_LOOPS, Transferred, transfer

#: Parameters that TLVM has in common with a latent variable model without transfer.
SHARED = (*SourceParams.model_fields, *LatentParams.model_fields)


def _latent(rows: str, role: Role) -> Baseline:
    """Return the latent variable model of these rows, otherwise alike."""
    return Baseline("gp-lvm", role, copied_params=SHARED, values={"rows": rows})


def _linear(name: str, weight: float, **values: Any) -> Baseline:
    """Return a linear model of the source and the weighted target, in as many dimensions."""
    return Baseline(
        name,
        "multi_task",
        copied_params=("source",),
        values={**values, "weight": weight},
        variant=f"target weight {weight:g}",
        renamed_params={"k": "L"},
    )


class TLVM(Algorithm[TLVMParams, LatentModel]):
    """Transfer of a Gaussian-process latent variable model."""

    name = "tlvm"
    title = "Transfer latent variable model"
    summary = (
        "A nonlinear latent space learned on a source task and carried to target tasks, by one "
        "Gaussian process over the most informative rows of both. Fills in missing values, and "
        "tells how sure it is. To reconstruct rows of targets that have few, transfer-pca is as "
        "good or better on most data, and far cheaper."
    )
    reference = (
        "Gao et al. (2011), Pattern Recognition 44; "
        "Lawrence (2005), https://jmlr.org/papers/v6/lawrence05a.html"
    )
    needs = Needs(same_features=True)
    baselines = (
        _latent("own", "single_task"),
        Baseline("pca", "single_task", renamed_params={"k": "L"}),
        _latent("pooled", "pooled"),
        _latent("source", "multi_task"),
        _linear("transfer-pca", weight=10.0),
        _linear("transfer-pca", weight=100.0),
        _linear("ppca", weight=10.0, rows="weighted"),
    )
    monotone = "down"
    Params = TLVMParams
    Model = LatentModel

    def check(self, summaries: Sequence[TaskSummary], params: TLVMParams) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit."""
        super().check(summaries, params)
        choose_source(summaries, params.source, algorithm=self.name)

    def fit(
        self, tasks: TaskSet, params: TLVMParams, *, trace: Trace, rng: np.random.Generator
    ) -> LatentModel:
        """Return the source's latent variable model, and what each target makes of it."""
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        source = tasks[choose_source(tasks.summaries(), params.source, algorithm=self.name)]
        targets = [task for task in tasks.by_name() if task is not source]
        labelled = {task.name: labelled_task(task, source) for task in tasks}
        trace.expect_loops(
            params.n_init
            + N_LOOPS * len(targets)
            + sum(n_projections(task, labelled[task.name]) for task in tasks)
        )
        with limit_blas_threads(2 * params.r):
            Y, mean = centred_rows(source)
            scale = row_scale(Y, task=source.name)
            gp = fit_latent_gp(Y / scale, params, trace=trace, loop="source", rng=rng)
            parts = {
                source.name: build_part(
                    gp.predictor(params),
                    source,
                    mean=mean,
                    scale=scale,
                    labelled=labelled[source.name],
                    is_robust=params.projection == "robust",
                    trace=trace,
                )
            }
            learned: dict[str, Transferred] = {}
            for task in targets:
                learned[task.name], parts[task.name] = _learn(
                    gp, task, params, labelled=labelled[task.name], scale=scale, trace=trace
                )
        return LatentModel(
            algorithm=self.name,
            tasks=tasks.names,
            parts=tuple(parts[name] for name in tasks.names),
            source_rows=gp.Y,
            fit_info={
                "params": params.model_dump(mode="json"),
                "source": source.name,
                "objective": gp.value,
                "by_task": {name: _fit_info(one) for name, one in learned.items()},
            },
            warnings=(
                *rank_warnings(params.L, gp.X.shape[1], task=source.name),
                *(warning for task in targets for warning in scale_warnings(scale, task)),
                *late_warnings(trace, max_iter=params.max_iter),
            ),
        )

    def adapt_task(self, model: LatentModel, task: Task, *, trace: Trace) -> LatentModel:
        """Return the model with one more target, from the source's active rows; no fit anew.

        A target without labels is not given those of the source, whose other rows are not kept.
        """
        params = TLVMParams.model_validate(model.fit_info["params"])
        part = model.part_of(model.fit_info["source"])
        process = part.process
        gp = LatentGP(process.theta, process.active, model.source_rows, model.fit_info["objective"])
        labelled = task if task.target == "classes" else None
        trace.expect_loops(N_LOOPS + n_projections(task, labelled))
        with limit_blas_threads(2 * params.r):
            learned, new = _learn(
                gp, task, params, labelled=labelled, scale=part.scale, trace=trace
            )
        by_task = {**model.fit_info["by_task"], task.name: _fit_info(learned)}
        return replace(
            model,
            tasks=(*model.tasks, task.name),
            parts=(*model.parts, new),
            fit_info={**model.fit_info, "by_task": by_task},
            warnings=(
                *model.warnings,
                *scale_warnings(part.scale, task),
                *late_warnings(trace, max_iter=params.max_iter, task=task.name),
            ),
        )


def _learn(
    gp: LatentGP,
    task: Task,
    params: TLVMParams,
    *,
    labelled: Task | None,
    scale: float,
    trace: Trace,
) -> tuple[Transferred, LatentPart]:
    Yt, mean = centred_rows(task)
    learned = transfer(gp, Yt / scale, params, trace=trace, name=task.name)
    part = build_part(
        learned.process,
        task,
        mean=mean,
        scale=scale,
        labelled=labelled,
        is_robust=params.projection == "robust",
        trace=trace,
    )
    return learned, part


def _fit_info(learned: Transferred) -> dict[str, Any]:
    """Return what a transfer ended at, as JSON."""
    return {
        "objective": learned.value,
        "divergence": learned.divergence,
        "theta": learned.process.theta.tolist(),
        "n_active": len(learned.process.active),
    }
