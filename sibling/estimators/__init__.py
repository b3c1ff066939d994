"""scikit-learn estimators of all algorithms of the registry.

Nothing here knows an algorithm: the name of an estimator is that of the algorithm's class, its
parameters are those of the algorithm's ``Params``, and its methods are those of its models.
"""

from typing import Final

from algorithms.registry import ALGORITHMS
from sibling.estimators.building import make_estimator
from sibling.estimators.estimator import Estimator
from sibling.estimators.tables import FitWarning

#: The estimator classes by their names.
ESTIMATORS: Final[dict[str, type[Estimator]]] = {}
for _algorithm in ALGORITHMS.values():  # those of other packages come last, and replace no other
    ESTIMATORS.setdefault(type(_algorithm).__name__, make_estimator(_algorithm))

#: What ``sibling`` exports of this package.
EXPORTS: Final[dict[str, type]] = {
    **ESTIMATORS,
    "Estimator": Estimator,
    "FitWarning": FitWarning,
}
