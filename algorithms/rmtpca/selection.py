"""Choose the coupling λ: as given, or by cross-validation of the retained variance ratio."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.folds import spread_folds
from algorithms.evaluation.splits import Split, by_task, divide, nothing_to_hold_out, rows_of
from algorithms.interface.errors import InvalidData
from algorithms.interface.grid_ends import end_warnings
from algorithms.interface.stopping import StoppingRule
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.units import units_of
from algorithms.rmtpca.coupled import follow_path
from algorithms.rmtpca.params import DEFAULT_COUPLING, RMTPCAParams
from algorithms.subspaces.moments import Moments, estimate_moments, held_out_ratio

Array = NDArray[np.float64]

#: From this relative coupling on the subspaces are one to working precision: λ counts as infinite.
COMMON_COUPLING = 1e9
#: A grid without a coupling within this factor of the default has none to prefer.
NEAR_FACTOR = 10.0
#: Mean ratios that differ by less are equal.
SAME_SCORE = 1e-12


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen coupling.

    Parameters
    ----------
    c
        On the scale of the parameters; 0 is I-PCA, infinity C-PCA.
    fit_info
        How it was chosen, as JSON.
    warnings
        What the user should know of the choice.
    """

    c: float
    fit_info: dict[str, Any]
    warnings: tuple[str, ...] = ()

    @classmethod
    def given(cls, c: float) -> "Choice":
        """Return the choice of whoever gave the coupling."""
        return cls(c, {"selection": "given"})


def absolute_coupling(moments: Moments, c: float, *, scale: str) -> float:
    """Return λ of eq. 4 for a coupling; on the relative scale c · mean_t(tr C_t)/d/(T-1).

    Infinity from :data:`COMMON_COUPLING` on, where the covariances are lost in the rounding of J.
    """
    n_tasks = moments.C.n_tasks
    if n_tasks == 1:
        return c if scale == "absolute" else 0.0
    unit = float(moments.C.traces.mean()) / moments.n_features / (n_tasks - 1)
    lam = c if scale == "absolute" else min(c, COMMON_COUPLING) * unit
    return np.inf if unit > 0 and lam >= COMMON_COUPLING * unit else lam


def candidates(params: RMTPCAParams) -> list[float]:
    """Return the couplings to try, rising; infinity stands for the common subspace."""
    ends = {"none": [], "common": [np.inf], "both": [0.0, np.inf]}[params.ends]
    return sorted({*params.grid, *ends})


def n_loops(params: RMTPCAParams) -> int:
    """Return the number of loops that :func:`choose_coupling` runs."""
    if params.selection == "given":
        return 0
    return 2 * params.n_folds * len(_inner(candidates(params)))


def choose_coupling(
    tasks: Sequence[Task], params: RMTPCAParams, *, trace: Trace, rng: np.random.Generator
) -> Choice:
    """Return the coupling as given, or the one that cross-validation settles for.

    With few tasks the held-out RVR hardly tells couplings apart, and the best of them is far off by
    chance. So the default is left only as far as the data ask for: of the couplings on the way from
    the default to the best one, the first is taken that is within one standard error of it.
    """
    if params.selection == "given":
        return Choice.given(params.lam)
    tried = candidates(params)
    seed = int(rng.integers(2**32))
    splits = inner_splits(tasks, n_folds=params.n_folds, seed=seed)
    scores = np.concatenate(
        [
            _fold_scores(split, tried, params, fold=fold, trace=trace)
            for fold, split in enumerate(splits)
        ],
        axis=1,
    )
    means = scores.mean(axis=1)
    fit_info = {
        "selection": "cv",
        "cv_couplings": [_as_json(c) for c in tried],
        "cv_rvr": [float(mean) for mean in means],
        "cv_best": _as_json(tried[int(np.argmax(means))]),
    }
    c = tried[settle(scores, start=_nearest(tried, _default(tasks, params)))]
    # with PCA per task, or the common subspace, among the candidates nothing lies beyond the grid
    is_inside = min(tried) < c < max(tried) or c in (0.0, np.inf)
    return Choice(c, fit_info, () if is_inside else end_warnings(params, {"lam": c}))


def settle(scores: Array, *, start: int | None) -> int:
    """Return the first candidate from ``start`` to the best one within one standard error of it.

    The standard error is that of the mean difference to the best one.

    Parameters
    ----------
    scores : (n_candidates, n)
        Paired: a column is one task in one fold.
    start
        The candidate to prefer; None: the best one.
    """
    means = scores.mean(axis=1)
    best = int(np.argmax(means >= means.max() - SAME_SCORE))
    n = scores.shape[1]
    if start is None or n < 2:
        return best
    step = 1 if best >= start else -1
    for i in range(start, best, step):
        worse = scores[best] - scores[i]
        if worse.mean() <= worse.std(ddof=1) / np.sqrt(n) + SAME_SCORE:
            return i
    return best


def _default(tasks: Sequence[Task], params: RMTPCAParams) -> float:
    """Return the coupling to prefer, on the scale of the parameters."""
    if params.lam_scale == "relative":
        return DEFAULT_COUPLING
    moments = estimate_moments(tasks, k=params.k)
    return absolute_coupling(moments, DEFAULT_COUPLING, scale="relative")


def _nearest(tried: Sequence[float], c: float) -> int | None:
    """Return the position of the coupling nearest to c in ratio; None where none is near."""
    inner = _inner(tried)
    if c == 0 or not inner:
        return None
    nearest = min(inner, key=lambda one: abs(np.log(one / c)))
    return tried.index(nearest) if 1 / NEAR_FACTOR <= nearest / c <= NEAR_FACTOR else None


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
    folds = by_task(bare, spread_folds(replace(rows, rank=place), n_folds=n_folds, min_rows=least))
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
    """Return the RVR of each held-out task for each coupling, (n_couplings, n_held)."""
    moments = estimate_moments(split.train.tasks, k=params.k)
    C = moments.C
    lams = [absolute_coupling(moments, c, scale=params.lam_scale) for c in tried]
    rising = sorted({lam for lam in lams if 0 < lam < np.inf})
    path = follow_path(
        C,
        lams=rising,
        k=params.k,
        stopping=StoppingRule(tolerance=params.rtol, max_iter=params.max_iter),
        trace=trace,
        loop=f"fold {fold + 1}",
    )
    bases = dict(zip(rising, (optimum.U for optimum in path), strict=True))
    if 0.0 in lams:
        bases[0.0] = C.leading(params.k)
    if np.inf in lams:
        common = C.leading_of_sum(params.k)
        bases[np.inf] = np.broadcast_to(common, (C.n_tasks, *common.shape))
    return np.array([_ratios(split.test, moments, C.lift(bases[lam])) for lam in lams])


def _ratios(held: TaskSet, moments: Moments, U: Array) -> list[float]:
    """Return the retained variance ratio of each task with held-out samples."""
    places = [moments.names.index(task.name) for task in held]
    return [
        held_out_ratio(task, mean=moments.means[t], U=U[t])
        for t, task in zip(places, held, strict=True)
    ]


def _inner(tried: Sequence[float]) -> list[float]:
    return [c for c in tried if 0 < c < np.inf]


def _as_json(c: float) -> float | None:
    return c if np.isfinite(c) else None
