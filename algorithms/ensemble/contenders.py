"""The methods of the race, in the order in which they are fitted.

They cover what tasks can have in common, from nothing to everything, with lines, curves and trees.
Each selects its own parameters from its training rows, by leave-one-out errors, marginal
likelihood, or a cross-validation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from algorithms.baselines.boosted_trees import BoostedTrees
from algorithms.baselines.constant import Constant
from algorithms.baselines.linear import LogisticRegression, MeanRegularised, Ridge
from algorithms.baselines.mixed_model import MixedModel
from algorithms.gp import GP
from algorithms.gp.model import GPModel
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtfl import MTFL

Algo = Algorithm[Any, Any]

#: With more rows, the folds of a Gaussian process start from the fit of all rows; so many steps
#: suffice. Without any, held-out rows would have been used.
WARM_ROWS: Final = 300
WARM_STEPS: Final = 5
#: Parameters that a cross-validation of all rows has chosen, and folds keep: one number of a few.
#: By algorithm: name of the parameter, and of the result.
_KEPT: Final = {
    "boosted-trees": ("n_trees", "n_trees"),
    "mtfl": ("gamma", "gamma_given"),
    "logistic-regression": ("gamma", "gamma"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A method with the parameters that differ from its defaults.

    Parameters
    ----------
    label
        Unique name in the race.
    """

    label: str
    algorithm: Algo
    values: Mapping[str, Any]

    @property
    def params(self) -> Any:
        """Its parameters."""
        return self.algorithm.parse(self.values)

    def fit(self, tasks: TaskSet, *, trace: Trace, seed: int) -> Model:
        """Return its model of all rows."""
        model: Model = self.algorithm.fit(tasks, self.params, trace=trace, rng=_random(seed))
        return model

    def refit(self, whole: Model, train: TaskSet, *, trace: Trace, seed: int) -> Model:
        """Return its model of the training rows of a fold, given the model of all rows."""
        self.algorithm.check(train.summaries(), self.params)
        if isinstance(whole, GPModel) and len(whole.X) > WARM_ROWS:
            gp = GP()
            params = gp.parse({**self.values, "max_iter": WARM_STEPS})
            return gp.refit(whole, train, params, trace=trace, rng=_random(seed))
        kept = _KEPT.get(self.algorithm.name)
        values = dict(self.values)
        if kept is not None:
            values |= {"selection": "given", kept[0]: whole.header()["fit_info"][kept[1]]}
        params = self.algorithm.parse(values)
        model: Model = self.algorithm.fit(train, params, trace=trace, rng=_random(seed))
        return model


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _contender(algorithm: Algo, label: str = "", **values: Any) -> Contender:
    return Contender(f"{algorithm.name} {label}".strip(), algorithm, values)


#: For numbers. Of two Gaussian processes one learns logarithms, if all targets are above 0.
_NUMBERS: Final = (
    _contender(Constant(), "per task", form="task"),
    _contender(Constant(), "pooled", form="pooled"),
    _contender(Ridge(), "pooled", form="pooled"),
    _contender(MeanRegularised()),
    _contender(Ridge(), "per task", form="task"),
    _contender(GP(), logarithms="never"),
    _contender(GP(), "of logarithms", logarithms="always"),
    _contender(BoostedTrees()),
    _contender(MTFL()),
    _contender(MixedModel()),
)
_CLASSES: Final = (
    _contender(Constant(), "per task", form="task"),
    _contender(Constant(), "pooled", form="pooled"),
    _contender(LogisticRegression(), "pooled", form="pooled"),
    _contender(MeanRegularised()),
    _contender(Ridge(), "per task", form="task"),
    _contender(GP()),
    _contender(BoostedTrees()),
    _contender(MTFL()),
    _contender(MixedModel()),
)
#: All, by the kind of the targets.
CONTENDERS: Final = {"numbers": _NUMBERS, "classes": _CLASSES}
#: Algorithms of the members of a model, by name.
ALGORITHMS: Final = {one.algorithm.name: one.algorithm for one in (*_NUMBERS, *_CLASSES)}
