"""The choice of parameters inside the training rows, for any algorithm.

No row that is used for a choice is used to judge it: :func:`select_params` sees training rows
only.
"""

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.metrics import mean_error_rate
from algorithms.evaluation.splits import fold_splits
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.model import PredictingModel
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]
P = TypeVar("P", bound=Params)

#: Gives what is to be small on held-out tasks.
Loss = Callable[[PredictingModel, TaskSet], float]


@dataclass(frozen=True, slots=True)
class Selection(Generic[P]):
    """The chosen parameters.

    Parameters
    ----------
    params
        Of least mean loss; of several, the first.
    losses
        Mean held-out loss of each candidate, in their order.
    """

    params: P
    losses: tuple[float, ...]


def candidates_of(params: P, *, falling: Collection[str] = ()) -> list[P]:
    """Give every combination of the grids of some parameters, the one to prefer first.

    Parameters
    ----------
    falling
        Parameters of which a large value is preferred to a small one.
    """
    grids = [
        sorted(set(getattr(params, grid)), reverse=name in falling)
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
    """Give the candidate of least mean loss in cross-validation of these tasks.

    Parameters
    ----------
    tasks
        Training rows; rows of a final test must not be among them.
    candidates
        The one to prefer among equals first.
    loop
        Name of the loop in the trace; one step fits one candidate without one fold.

    Raises
    ------
    InvalidData
        No task has two rows of a class, so that nothing can be held out.
    """
    seed = int(rng.integers(2**32))
    splits = fold_splits(tasks, n_folds=n_folds, seed=seed)
    n_steps = len(candidates) * len(splits)

    def step(state: _Scores) -> _Scores:
        which, fold = divmod(state.n_done, len(splits))
        inner = np.random.default_rng([seed, fold])
        model = algorithm.fit(splits[fold].train, candidates[which], trace=Trace(), rng=inner)
        losses = state.losses.copy()
        losses[which, fold] = loss(model, splits[fold].test)
        return _scored(losses, n_done=state.n_done + 1)

    start = _scored(np.zeros((len(candidates), len(splits))), n_done=0)
    losses = trace.run(loop, step, start, max_iter=n_steps, tolerance=0.0).losses.mean(axis=1)
    return Selection(candidates[int(np.argmin(losses))], tuple(float(x) for x in losses))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores(LoopState):
    """Losses (n_candidates, n_splits), row by row; the objective is the least mean so far."""

    losses: Array
    n_done: int


def _scored(losses: Array, *, n_done: int) -> _Scores:
    whole = losses[: max(n_done // losses.shape[1], 1)].mean(axis=1)
    left = 1.0 - n_done / losses.size
    return _Scores(objective=float(whole.min()), residual=left, losses=losses, n_done=n_done)
