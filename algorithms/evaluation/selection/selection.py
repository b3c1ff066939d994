"""Parameter selection by cross-validation of the training rows, for any algorithm.

Test rows never enter: :func:`select_params` sees training rows only. Each fold is prepared once,
and then all candidates are fitted to it in their order.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from algorithms.evaluation.scores.losses import mean_error_rate
from algorithms.evaluation.selection.failures import all_failed
from algorithms.interface.algorithm import Algorithm, PreparedFold
from algorithms.interface.errors import Diverged
from algorithms.interface.model import PredictingModel
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.splits.splits import Split, fold_splits

P = TypeVar("P", bound=Params)

#: Return the loss of a model on held-out rows.
Loss = Callable[[PredictingModel, TaskSet], float]


@dataclass(frozen=True, slots=True)
class Selection(Generic[P]):
    """The selected parameters.

    Parameters
    ----------
    params
        The candidate with the smallest mean loss; the first if several tie.
    losses
        Mean held-out loss of each candidate, in their order; infinite for a failed candidate.
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
        Candidates in order of preference; among equal candidates the first is selected.
    loop
        Name of the loop in the trace; one step fits one candidate without one fold.

    Raises
    ------
    InvalidData
        No task has two rows of a class, so no row can be held out.
    Diverged
        All candidates failed.
    """
    held_out = _held_out(
        algorithm, tasks, candidates, n_folds=n_folds, trace=trace, rng=rng, loop=loop,
        measure=lambda model, test: [loss(model, test)], n_measured=1,
    )  # fmt: skip
    losses = held_out.losses[:, :, 0].mean(axis=1)
    failed = held_out.failures.check(losses)
    return Selection(candidates[int(np.argmin(losses))], tuple(map(float, losses)), failed)


def select_per_task(
    algorithm: Algorithm[P, Any],
    tasks: TaskSet,
    candidates: Sequence[P],
    *,
    n_folds: int,
    trace: Trace,
    rng: np.random.Generator,
    loss: Loss = mean_error_rate,
) -> tuple[Selection[P], dict[str, P]]:
    """Return the candidate with the smallest mean loss over all tasks, and the best of each task.

    For algorithms that train each task alone: all tasks are fitted at once, and each is scored on
    its own rows. A task without held-out rows gets the common candidate. The arguments are the same
    as for :func:`select_params`.
    """

    def losses_by_task(model: PredictingModel, test: TaskSet) -> list[float]:
        by_task = {task.name: loss(model, TaskSet((task,))) for task in test}
        return [by_task.get(name, np.nan) for name in tasks.names]

    held_out = _held_out(
        algorithm, tasks, candidates, n_folds=n_folds, trace=trace, rng=rng, loop="selection",
        measure=losses_by_task, n_measured=len(tasks),
    )  # fmt: skip
    losses = held_out.losses
    common = _known_mean(_known_mean(losses, axis=2), axis=1)
    failed = held_out.failures.check(common)
    task_losses = _known_mean(losses, axis=1)
    task_losses[np.isinf(common)] = np.inf
    best = np.where(np.isnan(task_losses).any(axis=0), common.argmin(), task_losses.argmin(axis=0))
    chosen = {name: candidates[int(best[t])] for t, name in enumerate(tasks.names)}
    selection = Selection(candidates[int(common.argmin())], tuple(map(float, common)), failed)
    return selection, chosen


@dataclass(frozen=True, slots=True, eq=False)
class _HeldOut:
    """Losses (n_candidates, n_splits, n_measured), and the candidates that failed."""

    losses: Array
    failures: "_Failures"


def _held_out(
    algorithm: Algorithm[P, Any],
    tasks: TaskSet,
    candidates: Sequence[P],
    *,
    n_folds: int,
    trace: Trace,
    rng: np.random.Generator,
    loop: str,
    measure: Callable[[PredictingModel, TaskSet], Sequence[float]],
    n_measured: int,
) -> _HeldOut:
    """Return the losses of every candidate on the held-out rows of every fold.

    Parameters
    ----------
    measure
        Returns the ``n_measured`` losses of a model on held-out rows; NaN where there are none.
    """
    seed = int(rng.integers(2**32))
    splits = fold_splits(tasks, n_folds=n_folds, seed=seed)
    failures, current = _Failures(candidates), _Current(algorithm, candidates[0], seed)

    def step(state: _Losses) -> _Losses:
        fold, which = divmod(state.n_done, len(candidates))
        losses = state.losses.copy()
        losses[which, fold] = np.inf
        has_failed = [bool(np.isinf(row[:fold]).any()) for row in losses]
        if not has_failed[which]:
            earlier = [candidates[i] for i in range(which) if not has_failed[i]]
            with failures.recorded(which):
                current.prepare(splits[fold], earlier, fold=fold)
                model = current.fit(candidates[which])
                losses[which, fold] = measure(model, current.test)
        is_undefined = bool(np.isnan(losses[which, fold]).all())
        return _losses(losses, n_done=state.n_done + 1, is_undefined=is_undefined)

    start = _losses(np.full((len(candidates), len(splits), n_measured), np.nan), n_done=0)
    n_steps = len(candidates) * len(splits)
    losses = trace.run(loop, step, start, max_iter=n_steps, tolerance=0.0).losses
    return _HeldOut(losses, failures)


class _Current(Generic[P]):
    """The fold that candidates are fitted to now; only one is in memory."""

    def __init__(self, algorithm: Algorithm[P, Any], first: P, seed: int) -> None:
        self._algorithm, self._first, self._seed = algorithm, first, seed
        self._number = -1
        self._fold: PreparedFold[P, Any]

    def prepare(self, split: Split, earlier: Sequence[P], *, fold: int) -> None:
        """Prepare a fold, unless it is the current one.

        Parameters
        ----------
        earlier
            Candidates that a resumed fit has done. They are repeated, for the same warm starts.
        """
        if fold == self._number:
            return
        rng = np.random.default_rng([self._seed, fold])
        self._fold = self._algorithm.prepare_fold(split.train, split.test, self._first, rng=rng)
        self._number = fold
        for params in earlier if self._fold.has_warm_starts else ():
            with suppress(Diverged):
                self.fit(params)

    def fit(self, params: P) -> PredictingModel:
        """Return the model of a candidate."""
        model: PredictingModel = self._fold.fit(params, Trace())
        return model

    @property
    def test(self) -> TaskSet:
        """The held-out rows."""
        return self._fold.test


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
        """Return the failed candidates (of infinite loss); raise Diverged if all failed."""
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
class _Losses(LoopState):
    """Losses (n_candidates, n_splits, n_measured), filled fold by fold; NaN where unknown.

    The objective is the smallest mean loss so far.
    """

    losses: Array
    n_done: int


def _losses(losses: Array, *, n_done: int, is_undefined: bool = False) -> _Losses:
    """Return the state; its objective is NaN if the last loss is undefined."""
    means = _known_mean(_known_mean(losses, axis=2), axis=1)
    finite = means[np.isfinite(means)]
    smallest = np.nan if is_undefined else float(finite.min(initial=np.inf))
    smallest = 0.0 if smallest == np.inf else smallest
    left = 1.0 - n_done / (losses.shape[0] * losses.shape[1])
    return _Losses(objective=smallest, residual=left, losses=losses, n_done=n_done)


def _known_mean(losses: Array, *, axis: int) -> Array:
    """Return the mean of the entries that are not NaN; NaN if all are."""
    is_known = ~np.isnan(losses)
    total, n = np.where(is_known, losses, 0.0).sum(axis=axis), is_known.sum(axis=axis)
    mean: Array = np.divide(total, n, out=np.full(np.shape(total), np.nan), where=n > 0)
    return mean
