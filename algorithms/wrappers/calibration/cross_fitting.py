"""Cross-fitting: models that were each fitted without one fold of the training rows."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.splits.requirements import min_train_rows
from algorithms.splits.splits import divide, explain_nothing_held_out, folds_of


@dataclass(frozen=True, slots=True, eq=False)
class CrossFit:
    """A model of all rows, and models that were fitted without a fold.

    Attributes
    ----------
    fold_of
        By task, the fold of each row, the position in ``models``; -1 if every model has the row.
    """

    whole: Model
    models: tuple[Model, ...]
    fold_of: Mapping[str, NDArray[np.intp]]


def cross_fit(
    algorithm: Algorithm[Any, Any],
    tasks: TaskSet,
    params: Params,
    *,
    n_folds: int,
    trace: Trace,
    rng: np.random.Generator,
) -> CrossFit:
    """Return the fits with all rows and without each fold.

    The fit with all rows equals the fit of the algorithm alone, with the same random numbers. Folds
    keep groups, equal rows and the shares of the classes together as in an evaluation.

    Raises
    ------
    InvalidData
        No row can be held out.
    """
    seed = int(deepcopy(rng).integers(2**31))
    min_rows = min_train_rows(algorithm, [params], tasks.summaries())
    fold_of = folds_of(tasks, n_folds=n_folds, seed=seed, min_rows=min_rows)
    used = sorted({int(fold) for folds in fold_of.values() for fold in np.unique(folds)} - {-1})
    if not used:
        raise InvalidData(
            f"{explain_nothing_held_out(tasks)}; train without calibration", task=tasks.names[0]
        )
    models: list[Model] = []
    for part in trace.parts([*used, None]):
        if part is None:
            full_model = algorithm.fit(tasks, params, trace=trace, rng=rng)
            break
        split = divide(tasks, {name: folds == part for name, folds in fold_of.items()})
        assert split is not None  # the fold has a row
        algorithm.check(split.train.summaries(), params)
        models.append(
            algorithm.fit(
                split.train, params, trace=trace.nested(), rng=np.random.default_rng([seed, part])
            )
        )
    position = {fold: i for i, fold in enumerate(used)} | {-1: -1}
    numbered = {
        name: np.array([position[fold] for fold in folds.tolist()], dtype=np.intp)
        for name, folds in fold_of.items()
    }
    return CrossFit(full_model, tuple(models), numbered)
