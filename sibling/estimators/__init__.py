"""scikit-learn estimators of all algorithms of the registry, and of the choice among them.

Nothing here depends on a single algorithm: an estimator takes its name from the algorithm's class,
its parameters from the algorithm's ``Params``, and its methods from the algorithm's models.
"""

from importlib import import_module
from typing import Any, Final

from algorithms.interface.lazy_mapping import LazyMapping
from algorithms.registry import ALGORITHMS, CLASS_NAMES
from sibling.estimators.building import make_estimator
from sibling.estimators.estimator import Estimator
from sibling.estimators.tables import FitWarning

_AUTO: Final = "Auto"


def _make(name: str) -> type[Estimator]:
    if name == _AUTO:  # imported late: it needs half of all algorithms
        made: type[Estimator] = import_module("sibling.estimators.automatic").make_auto()
        return made
    return make_estimator(ALGORITHMS[CLASS_NAMES[name]])


#: The estimator classes by their names; each is made when it is first used.
ESTIMATORS: Final = LazyMapping([*CLASS_NAMES, _AUTO], _make)

__all__ = ["ESTIMATORS", "Estimator", "FitWarning"]


def __getattr__(name: str) -> Any:
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *ESTIMATORS]
