"""Parameter selection by cross-validation of the training rows, for any algorithm.

Test rows never enter: :func:`select_params` sees training rows only.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.failures import all_failed
from algorithms.evaluation.metrics import mean_error_rate
from algorithms.evaluation.splits import fold_splits
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import Diverged
from algorithms.interface.model import PredictingModel
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]
P = TypeVar("P", bound=Params)

#: Return the loss of a model on held-out rows.
Loss = Callable[[PredictingModel, TaskSet], float]


@dataclass(frozen=True, slots=True)
class Selection(Generic[P]):
    """The selected parameters.

    Parameters
    ----------
    params
        The candidate with the smallest mean loss; the first one if several tie.
    losses
        Mean held-out loss of each candidate, in their order; infinite for one that failed.
    failed
        The ``params`` and the ``reason`` of each candidate that failed.
    """

    params: P
    losses: tuple[float, ...]
    failed: tuple[dict[str, Any], ...] = ()

    @property
    def fit_info(self) -> dict[str, Any]:
        """Failed candidates, if any, as JSON."""
        return {"failed_candidates": list(self.failed)} if self.failed else {}


def grid_candidates(params: P, *, prefer_large: Collection[str] = ()) -> list[P]:
    """Return every combination of the parameter grids, the preferred combination first.

    Parameters
    ----------
    prefer_large
        Parameters whose large values are preferred to small ones.
    """
    grids = [
        sorted(set(getattr(params, grid)), reverse=name in prefer_large)
        for name, grid in params.GRIDS.items()
    ]
    return [
        params.model_copy(
            update={**dict(zip(params.GRIDS, values, strict=True)), "selection": "given"}
        )
        for values in itertools.product(*grids)
    ]


def select_params(
    algorithm: Algorithm[P, Any],
    tasks: TaskSet,
    candidates: Sequence[P],
    *,
    n_folds: int,
    trace: Trace,
    rng: np.random.Generator,
    loop: str = "selection",
    loss: Loss = mean_error_rate,
) -> Selection[P]:
    """Return the candidate with the smallest mean loss in cross-validation of these tasks.

    Parameters
    ----------
    tasks
        Training rows, without the rows of a final test.
    candidates
        Candidates in order of preference; of equal ones the first is selected.
    loop
        Name of the loop in the trace; one step fits one candidate without one fold.

    Raises
    ------
    InvalidData
        No task has two rows of a class, so no row can be held out.
    Diverged
        All candidates failed.
    """
    seed = int(rng.integers(2**32))
    splits = fold_splits(tasks, n_folds=n_folds, seed=seed)
    n_steps = len(candidates) * len(splits)
    failures = _Failures(candidates)

    def step(state: _Scores) -> _Scores:
        which, fold = divmod(state.n_done, len(splits))
        losses = state.losses.copy()
        losses[which, fold] = np.inf
        if np.isfinite(losses[which, :fold]).all():
            inner = np.random.default_rng([seed, fold])
            with failures.recorded(which):
                model = algorithm.fit(
                    splits[fold].train, candidates[which], trace=Trace(), rng=inner
                )
                losses[which, fold] = loss(model, splits[fold].test)
        return _scores(losses, n_done=state.n_done + 1)

    start = _scores(np.zeros((len(candidates), len(splits))), n_done=0)
    losses = trace.run(loop, step, start, max_iter=n_steps, tolerance=0.0).losses.mean(axis=1)
    failed = failures.check(losses)
    return Selection(candidates[int(np.argmin(losses))], tuple(map(float, losses)), failed)


def select_per_task(
    algorithm: Algorithm[P, Any],
    tasks: TaskSet,
    candidates: Sequence[P],
    *,
    n_folds: int,
    trace: Trace,
    rng: np.random.Generator,
    loop: str = "selection",
    loss: Loss = mean_error_rate,
) -> tuple[Selection[P], dict[str, P]]:
    """Return the candidate with the smallest mean loss over all tasks, and the best of each task.

    For algorithms that train each task alone: all tasks are fitted at once, and each is scored on
    its own rows. A task without held-out rows gets the common candidate. The arguments are those
    of :func:`select_params`.
    """
    seed = int(rng.integers(2**32))
    splits = fold_splits(tasks, n_folds=n_folds, seed=seed)
    n_steps = len(candidates) * len(splits)
    failures = _Failures(candidates)

    def step(state: _TaskScores) -> _TaskScores:
        which, fold = divmod(state.n_done, len(splits))
        losses = state.losses.copy()
        losses[which, fold] = np.inf
        if not np.isinf(losses[which, :fold]).any():
            inner = np.random.default_rng([seed, fold])
            with failures.recorded(which):
                model = algorithm.fit(
                    splits[fold].train, candidates[which], trace=Trace(), rng=inner
                )
                found = {task.name: loss(model, TaskSet((task,))) for task in splits[fold].test}
                losses[which, fold] = [found.get(name, np.nan) for name in tasks.names]
        n_done = state.n_done + 1
        smallest = _smallest(_known_mean(losses[: which + 1], axis=(1, 2)))
        left = 1.0 - n_done / n_steps
        return _TaskScores(objective=smallest, residual=left, losses=losses, n_done=n_done)

    unknown = np.full((len(candidates), len(splits), len(tasks)), np.nan)
    start = _TaskScores(objective=0.0, residual=1.0, losses=unknown, n_done=0)
    losses = trace.run(loop, step, start, max_iter=n_steps, tolerance=0.0).losses
    common = _known_mean(_known_mean(losses, axis=2), axis=1)
    failed = failures.check(common)
    own = _known_mean(losses, axis=1)
    own[np.isinf(common)] = np.inf
    best = np.where(np.isnan(own).any(axis=0), common.argmin(), own.argmin(axis=0))
    chosen = {name: candidates[int(best[t])] for t, name in enumerate(tasks.names)}
    whole = Selection(candidates[int(common.argmin())], tuple(map(float, common)), failed)
    return whole, chosen


class _Failures:
    """Failed candidates of one choice, with their errors."""

    def __init__(self, candidates: Sequence[Params]) -> None:
        self._candidates = candidates
        self._errors: dict[int, Diverged] = {}

    @contextmanager
    def recorded(self, which: int) -> Iterator[None]:
        """Record the error of a candidate whose fit diverges, instead of raising it."""
        try:
            yield
        except Diverged as error:
            self._errors[which] = error

    def check(self, losses: Array) -> tuple[dict[str, Any], ...]:
        """Return the failed candidates, those of infinite loss; raise Diverged if all failed."""
        which_failed = [int(which) for which in np.flatnonzero(np.isinf(losses))]
        failed = tuple(self._describe(which) for which in which_failed)
        if len(failed) == len(losses):
            raise all_failed(failed, self._errors.get(0))
        return failed

    def _describe(self, which: int) -> dict[str, Any]:
        error, params = self._errors.get(which), self._candidates[which]
        return {
            "params": {name: getattr(params, name) for name in params.GRIDS},
            "reason": "the held-out error is infinite" if error is None else error.message,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores(LoopState):
    """Losses (n_candidates, n_splits), filled row by row; the objective is the best mean so far."""

    losses: Array
    n_done: int


def _scores(losses: Array, *, n_done: int) -> _Scores:
    complete = losses[: max(n_done // losses.shape[1], 1)].mean(axis=1)
    left = 1.0 - n_done / losses.size
    return _Scores(objective=_smallest(complete), residual=left, losses=losses, n_done=n_done)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskScores(LoopState):
    """Losses (n_candidates, n_splits, n_tasks), NaN if the split holds out no row of the task."""

    losses: Array
    n_done: int


def _smallest(losses: Array) -> float:
    """Return the smallest mean loss of the candidates so far; 0 while all have failed."""
    smallest = float(losses.min())
    return 0.0 if smallest == np.inf else smallest


def _known_mean(losses: Array, *, axis: int | tuple[int, int]) -> Array:
    """Return the mean of the entries that are not NaN; NaN if all are."""
    is_known = ~np.isnan(losses)
    total, n = np.where(is_known, losses, 0.0).sum(axis=axis), is_known.sum(axis=axis)
    mean: Array = np.divide(total, n, out=np.full(np.shape(total), np.nan), where=n > 0)
    return mean
