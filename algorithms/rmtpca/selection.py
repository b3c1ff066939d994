"""Choice of the coupling λ: as given, or by cross-validation of the retained variance ratio."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from algorithms.families.subspaces.moments import Moments, estimate_moments, held_out_ratio
from algorithms.interface.errors import InvalidData
from algorithms.interface.params import end_warnings
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.interface.units import units_of
from algorithms.numerics.arrays import Array
from algorithms.rmtpca.coupled import follow_path
from algorithms.rmtpca.params import DEFAULT_COUPLING, RMTPCAParams
from algorithms.splits.folds import spread_folds
from algorithms.splits.splits import Split, by_task, divide, nothing_to_hold_out, rows_of

#: From this relative coupling on, all subspaces are equal to working precision: λ is infinite.
COMMON_COUPLING = 1e9
#: A grid without a coupling within this factor of the default has no preferred coupling.
MAX_DEFAULT_FACTOR = 10.0
#: Mean scores that differ by less are equal.
SCORE_ATOL = 1e-12


@dataclass(frozen=True, slots=True)
class ChosenCoupling:
    """The chosen coupling.

    Parameters
    ----------
    c
        Coupling on the scale of the parameters; 0 is I-PCA, infinity is C-PCA.
    fit_info
        Results of the choice, as JSON.
    warnings
        Warnings about the choice.
    """

    c: float
    fit_info: dict[str, Any]
    warnings: tuple[str, ...] = ()

    @classmethod
    def given(cls, c: float) -> "ChosenCoupling":
        """Return the choice for a given coupling."""
        return cls(c, {"selection": "given"})


def absolute_coupling(moments: Moments, c: float, *, scale: str) -> float:
    """Return λ of eq. 4 for a coupling c; on the relative scale it is c · mean_t(tr C_t)/d/(T-1).

    From :data:`COMMON_COUPLING` on it is infinite, because the covariances would contribute less to
    the objective J than its rounding errors.
    """
    n_tasks = moments.C.n_tasks
    if n_tasks == 1:
        return c if scale == "absolute" else 0.0
    unit = float(moments.C.traces.mean()) / moments.n_features / (n_tasks - 1)
    lam = c if scale == "absolute" else min(c, COMMON_COUPLING) * unit
    return np.inf if unit > 0 and lam >= COMMON_COUPLING * unit else lam


def candidate_couplings(params: RMTPCAParams) -> list[float]:
    """Return the couplings to try in increasing order; infinity is the common subspace."""
    ends = {"none": [], "common": [np.inf], "both": [0.0, np.inf]}[params.ends]
    return sorted({*params.grid, *ends})


def n_loops(params: RMTPCAParams) -> int:
    """Return the number of loops that :func:`choose_coupling` runs."""
    if params.selection == "given":
        return 0
    return 2 * params.n_folds * len(_finite_positive(candidate_couplings(params)))


def choose_coupling(
    tasks: Sequence[Task], params: RMTPCAParams, *, trace: Trace, rng: np.random.Generator
) -> ChosenCoupling:
    """Return the coupling as given, or choose one by cross-validation.

    With few tasks the held-out RVR differs little between couplings, and its maximum can be far
    from the true optimum by chance. The choice therefore stays as close to the default as the data
    allow: between the default and the best coupling, take the first one whose score is within one
    standard error of the best score.
    """
    if params.selection == "given":
        return ChosenCoupling.given(params.lam)
    couplings = candidate_couplings(params)
    seed = int(rng.integers(2**32))
    splits = inner_splits(tasks, n_folds=params.n_folds, seed=seed)
    scores = np.concatenate(
        [
            _fold_scores(split, couplings, params, fold=fold, trace=trace)
            for fold, split in enumerate(splits)
        ],
        axis=1,
    )
    means = scores.mean(axis=1)
    fit_info = {
        "selection": "cv",
        "cv_couplings": [_as_json(c) for c in couplings],
        "cv_rvr": [float(mean) for mean in means],
        "cv_best": _as_json(couplings[int(np.argmax(means))]),
    }
    preferred = _nearest(couplings, _default(tasks, params))
    c = couplings[choose_within_standard_error(scores, preferred=preferred)]
    # no larger grid can go beyond PCA per task or the common subspace
    is_inside = min(couplings) < c < max(couplings) or c in (0.0, np.inf)
    return ChosenCoupling(c, fit_info, () if is_inside else end_warnings(params, {"lam": c}))


def choose_within_standard_error(scores: Array, *, preferred: int | None) -> int:
    """Return the candidate closest to the preferred one within one standard error of the best.

    Candidates between the preferred and the best one are compared with the best one; the standard
    error belongs to the mean difference.

    Parameters
    ----------
    scores : (n_candidates, n)
        Paired scores: a column is one task in one fold.
    preferred
        Position of the preferred candidate; ``None`` for the best one.
    """
    means = scores.mean(axis=1)
    best = int(np.argmax(means >= means.max() - SCORE_ATOL))
    n = scores.shape[1]
    if preferred is None or n < 2:
        return best
    step = 1 if best >= preferred else -1
    for i in range(preferred, best, step):
        loss = scores[best] - scores[i]
        if loss.mean() <= loss.std(ddof=1) / np.sqrt(n) + SCORE_ATOL:
            return i
    return best


def _default(tasks: Sequence[Task], params: RMTPCAParams) -> float:
    """Return the default coupling on the scale of the parameters."""
    if params.lam_scale == "relative":
        return DEFAULT_COUPLING
    moments = estimate_moments(tasks, k=params.k)
    return absolute_coupling(moments, DEFAULT_COUPLING, scale="relative")


def _nearest(couplings: Sequence[float], c: float) -> int | None:
    """Return the position of the coupling with ratio to c closest to 1; None if none is near."""
    finite = _finite_positive(couplings)
    if c == 0 or not finite:
        return None
    nearest = min(finite, key=lambda coupling: abs(np.log(coupling / c)))
    is_near = 1 / MAX_DEFAULT_FACTOR <= nearest / c <= MAX_DEFAULT_FACTOR
    return couplings.index(nearest) if is_near else None


def check_folds(summaries: Sequence[TaskSummary], params: RMTPCAParams) -> None:
    """Raise InvalidData if a task has too few samples for the folds."""
    if params.selection == "given":
        return
    K = params.n_folds
    for task in summaries:
        n, noun = task.n_samples, "rows" if task.input == "rows" else "covariance matrices"
        n_train = n - -(-n // K)
        if n < K or n_train < (2 if task.input == "rows" else 1):
            n_min = 4 if noun == "rows" and K == 2 else K  # two rows are needed for training
            raise InvalidData(
                f"task '{task.name}' has {n} {noun}; cross-validation with {K} folds needs at "
                f"least {n_min} in every task; decrease 'n_folds' or set 'lam' instead",
                task=task.name,
            )


def inner_splits(tasks: Sequence[Task], *, n_folds: int, seed: int) -> list[Split]:
    """Return the split of every fold that is not empty; targets are ignored.

    The folds depend on the seed and the units of the rows, not on the order of the tasks. Every
    split leaves two rows, or one covariance matrix, of each task for training.

    Raises
    ------
    InvalidData
        No sample can be held out.
    """
    bare = TaskSet(tuple(replace(task, y=None) for task in tasks))
    rows = rows_of(bare, units_of(bare), seed=[seed])
    # the fold of a row depends on its position in the random order
    positions = np.concatenate([np.argsort(rank) for rank in by_task(bare, rows.rank).values()])
    min_rows = np.array([2 if task.input == "rows" else 1 for task in bare.by_name()])
    ordered = replace(rows, rank=positions)
    folds = by_task(bare, spread_folds(ordered, n_folds=n_folds, min_rows=min_rows))
    splits = [
        divide(bare, {name: task_folds == fold for name, task_folds in folds.items()})
        for fold in range(n_folds)
    ]
    nonempty = [split for split in splits if split is not None]
    if not nonempty:
        raise nothing_to_hold_out(bare)
    return nonempty


def _fold_scores(
    split: Split, couplings: Sequence[float], params: RMTPCAParams, *, fold: int, trace: Trace
) -> Array:
    """Return the RVR of each held-out task for each coupling, (n_couplings, n_test_tasks)."""
    moments = estimate_moments(split.train.tasks, k=params.k)
    C = moments.C
    lams = [absolute_coupling(moments, c, scale=params.lam_scale) for c in couplings]
    increasing = sorted({lam for lam in lams if 0 < lam < np.inf})
    path = follow_path(
        C,
        lams=increasing,
        k=params.k,
        stopping=StoppingRule(tolerance=params.rtol, max_iter=params.max_iter),
        trace=trace,
        loop=f"fold {fold + 1}",
    )
    bases = dict(zip(increasing, (optimum.U for optimum in path), strict=True))
    if 0.0 in lams:
        bases[0.0] = C.leading(params.k)
    if np.inf in lams:
        common = C.leading_of_sum(params.k)
        bases[np.inf] = np.broadcast_to(common, (C.n_tasks, *common.shape))
    return np.array([_ratios(split.test, moments, C.lift(bases[lam])) for lam in lams])


def _ratios(test: TaskSet, moments: Moments, U: Array) -> list[float]:
    """Return the retained variance ratio of each task with held-out samples."""
    position = {name: t for t, name in enumerate(moments.names)}
    positions = [position[task.name] for task in test]
    return [
        held_out_ratio(task, mean=moments.means[t], U=U[t])
        for t, task in zip(positions, test, strict=True)
    ]


def _finite_positive(couplings: Sequence[float]) -> list[float]:
    return [c for c in couplings if 0 < c < np.inf]


def _as_json(c: float) -> float | None:
    return c if np.isfinite(c) else None
