"""scikit-learn estimators of all algorithms of the registry.

Nothing here depends on a single algorithm: an estimator takes its name from the algorithm's class,
its parameters from the algorithm's ``Params``, and its methods from the algorithm's models.
"""

from typing import Any, Final

from algorithms.interface.lazy_mapping import LazyMapping
from algorithms.registry import ALGORITHMS, CLASS_NAMES
from sibling.estimators.building import make_estimator
from sibling.estimators.estimator import Estimator
from sibling.estimators.tables import FitWarning


def _make(name: str) -> type[Estimator]:
    return make_estimator(ALGORITHMS[CLASS_NAMES[name]])


#: The estimator classes by their names; each is made when it is first used.
ESTIMATORS: Final = LazyMapping(CLASS_NAMES, _make)

__all__ = ["ESTIMATORS", "Estimator", "FitWarning"]


def __getattr__(name: str) -> Any:
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *ESTIMATORS]
