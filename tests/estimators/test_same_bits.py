"""The bits of a model depend on its rows alone, where these are few: on no threads, no memory."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.threads import SMALL_ORDER
from sibling.estimators import ESTIMATORS

pytestmark = pytest.mark.filterwarnings("ignore::sibling.FitWarning")

RNG = np.random.default_rng(0)
NAMES = ("a", "b", "c")
#: So many that BLAS divides products, and factors of the kernel of all rows, between threads.
ROWS = {name: RNG.standard_normal((90, 10)) + t for t, name in enumerate(NAMES)}
NUMBERS = {name: X @ np.arange(10.0) + RNG.standard_normal(90) for name, X in ROWS.items()}
LABELS = {name: np.where(y > np.median(y), "high", "low") for name, y in NUMBERS.items()}
#: Iterations that are enough to see another rounding error.
MAX_ITER = 5

TARGETS = {
    name: {"none": None, "classes": LABELS}.get(cls._algorithm.needs.target, NUMBERS)
    for name, cls in ESTIMATORS.items()
}


def bits(cls, targets, *, n_threads=1):
    """Return the arrays of a model, and of it with another task if there can be one."""
    algorithm = cls._algorithm
    given = {"max_iter": MAX_ITER, "selection": "given"}
    fields = algorithm.Params.model_fields
    estimator = cls(**{name: value for name, value in given.items() if name in fields})
    X = dict.fromkeys(NAMES, ROWS["a"]) if algorithm.needs.shared_rows else ROWS
    with threadpool_limits(n_threads, user_api="blas"):
        models = [estimator.fit(X, targets).model_]
        if algorithm.supports_adaptation() and not algorithm.needs.shared_rows:
            y = None if targets is None else targets["b"]
            models.append(estimator.adapt(ROWS["b"] + 0.5, y, task="new").model_)
    return [{k: v.tobytes() for k, v in model.to_arrays().items()} for model in models]


def over(names):
    return pytest.mark.parametrize("cls", [pytest.param(ESTIMATORS[n], id=n) for n in names])


@over(ESTIMATORS)
def test_few_rows_give_the_same_bits_on_any_number_of_threads(cls):
    targets = TARGETS[cls.__name__]
    assert bits(cls, targets, n_threads=1) == bits(cls, targets, n_threads=2)


@over(name for name, targets in TARGETS.items() if targets)
def test_targets_give_the_same_bits_wherever_they_are_in_memory(cls):
    targets = TARGETS[cls.__name__]
    columns = {task: np.column_stack([y, y])[:, 1] for task, y in targets.items()}
    assert bits(cls, targets) == bits(cls, columns)


def test_the_order_of_tasks_is_the_number_of_their_rows_or_columns():
    wide = TaskSet((Task.from_rows("a", np.ones((2, 7))), Task.from_rows("b", np.ones((3, 4)))))
    tall = TaskSet((Task.from_rows("a", np.ones((2, 3))), Task.from_rows("b", np.ones((3, 3)))))
    assert (wide.order, tall.order) == (7, 5)
    assert sum(map(len, ROWS.values())) <= SMALL_ORDER
