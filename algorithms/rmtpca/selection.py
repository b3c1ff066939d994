"""Choose the coupling λ: as given, or by cross-validation of the retained variance ratio."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.folds import spread_folds
from algorithms.evaluation.splits import Split, by_task, divide, nothing_to_hold_out, rows_of
from algorithms.evaluation.units import units_of
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.rmtpca.coupled import Effort, follow_path
from algorithms.rmtpca.params import RMTPCAParams
from algorithms.subspaces.moments import Moments, estimate_moments, held_out_ratio

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen coupling.

    Parameters
    ----------
    c
        On the scale of the parameters; 0 is I-PCA, infinity C-PCA.
    facts
        How it was chosen, as JSON.
    """

    c: float
    facts: dict[str, Any]

    @classmethod
    def given(cls, c: float) -> "Choice":
        """Give the choice of whoever gave the coupling."""
        return cls(c, {"selection": "given"})


def absolute_coupling(moments: Moments, c: float, *, scale: str) -> float:
    """Give λ of eq. 4 for a coupling; on the relative scale c · mean_t(tr C_t)/d/(T-1)."""
    n_tasks = moments.C.n_tasks
    if scale == "absolute":
        return c
    if n_tasks == 1:
        return 0.0
    return c * float(moments.C.traces.mean()) / moments.n_features / (n_tasks - 1)


def candidates(params: RMTPCAParams) -> list[float]:
    """Give the couplings to try, rising; infinity stands for the common subspace."""
    ends = {"none": [], "common": [np.inf], "both": [0.0, np.inf]}[params.ends]
    return sorted({*params.grid, *ends})


def n_loops(params: RMTPCAParams) -> int:
    """Give the number of loops that :func:`choose_coupling` runs."""
    if params.selection == "given":
        return 0
    return 2 * params.n_folds * len(_inner(candidates(params)))


def choose_coupling(
    tasks: Sequence[Task], params: RMTPCAParams, *, trace: Trace, rng: np.random.Generator
) -> Choice:
    """Give the coupling as given, or the one of largest held-out RVR, the smallest if several."""
    if params.selection == "given":
        return Choice.given(params.lam)
    tried = candidates(params)
    seed = int(rng.integers(2**32))
    splits = inner_splits(tasks, n_folds=params.n_folds, seed=seed)
    scores = np.zeros(len(tried))
    for fold, split in enumerate(splits):
        scores += _fold_scores(split, tried, params, fold=fold, trace=trace)
    scores /= len(splits)
    best = int(np.argmax(scores >= scores.max() - 1e-12))
    facts = {
        "selection": "cv",
        "cv_couplings": [_as_json(c) for c in tried],
        "cv_rvr": [float(score) for score in scores],
    }
    return Choice(tried[best], facts)


def check_folds(summaries: Sequence[TaskSummary], params: RMTPCAParams) -> None:
    """Raise InvalidData where a task cannot be split into the folds."""
    if params.selection == "given":
        return
    K = params.n_folds
    for task in summaries:
        n, noun = task.n_samples, "rows" if task.input == "rows" else "covariance matrices"
        n_left = n - -(-n // K)
        if n < K or n_left < (2 if task.input == "rows" else 1):
            least = 4 if noun == "rows" and K == 2 else K  # two rows must be left to train on
            raise InvalidData(
                f"task '{task.name}' has {n} {noun}; cross-validation with {K} folds needs at "
                f"least {least} in every task, so lower n_folds or give λ",
                task=task.name,
            )


def inner_splits(tasks: Sequence[Task], *, n_folds: int, seed: int) -> list[Split]:
    """Return the split of every fold that holds samples; targets do not count.

    The folds depend on the seed and the units of the rows, not on the order of the tasks. Two rows
    of a task are left to train on, or one covariance matrix.

    Raises
    ------
    InvalidData
        No sample can be held out.
    """
    bare = TaskSet(tuple(replace(task, y=None) for task in tasks))
    rows = rows_of(bare, units_of(bare), seed=[seed])
    # a row is in the fold of its place in the random order, not of its turn
    place = np.concatenate([np.argsort(rank) for rank in by_task(bare, rows.rank).values()])
    least = np.array([2 if task.input == "rows" else 1 for task in bare.by_name()])
    folds = by_task(bare, spread_folds(replace(rows, rank=place), n_folds=n_folds, least=least))
    splits = [
        divide(bare, {name: own == fold for name, own in folds.items()}) for fold in range(n_folds)
    ]
    found = [split for split in splits if split is not None]
    if not found:
        raise nothing_to_hold_out(bare)
    return found


def _fold_scores(
    split: Split, tried: Sequence[float], params: RMTPCAParams, *, fold: int, trace: Trace
) -> Array:
    """Give the mean RVR on one fold for each coupling, (n_couplings,)."""
    moments = estimate_moments(split.train.tasks, k=params.k)
    C = moments.C
    inner = _inner(tried)
    path = follow_path(
        C,
        lams=[absolute_coupling(moments, c, scale=params.lam_scale) for c in inner],
        k=params.k,
        effort=Effort(params.max_iter, params.rtol),
        trace=trace,
        loop=f"fold {fold + 1}",
    )
    bases = dict(zip(inner, (optimum.U for optimum in path), strict=True))
    if 0.0 in tried:
        bases[0.0] = C.leading(params.k)
    if np.inf in tried:
        common = C.leading_of_sum(params.k)
        bases[np.inf] = np.broadcast_to(common, (C.n_tasks, *common.shape))
    return np.array([_mean_ratio(split.test, moments, C.lift(bases[c])) for c in tried])


def _mean_ratio(held: TaskSet, moments: Moments, U: Array) -> float:
    """Return the mean retained variance ratio of the tasks with held-out samples."""
    places = [moments.names.index(task.name) for task in held]
    ratios = [
        held_out_ratio(task, mean=moments.means[t], U=U[t])
        for t, task in zip(places, held, strict=True)
    ]
    return float(np.mean(ratios))


def _inner(tried: Sequence[float]) -> list[float]:
    return [c for c in tried if 0 < c < np.inf]


def _as_json(c: float) -> float | None:
    return c if np.isfinite(c) else None
