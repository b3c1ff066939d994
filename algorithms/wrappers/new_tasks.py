"""Any model, with tasks that it was not trained on."""

from collections.abc import Collection
from typing import Any, get_args

from numpy.typing import NDArray

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams, UnknownTask
from algorithms.interface.model import Model
from algorithms.interface.new_tasks import WITH_COMMON_PART, NewTasks
from algorithms.interface.params import Params
from algorithms.interface.tasks import unknown_task
from algorithms.wrappers.calibration.model import CalibratedModel
from algorithms.wrappers.per_task import PerTaskModel


class NewTasksModel(PerTaskModel):
    """A model of tasks, with the common part of it for tasks that it was not trained on."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, the new ones last."""
        return (*self.inner.tasks, *self.tasks_alone)

    def predict_proba(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the probabilities of the classes of rows."""
        return self._call_calibrated("predict_proba", X, task)

    def predict_interval(self, X: object, *, task: str, **level: float) -> NDArray[Any]:
        """Return the ends of intervals with the targets of rows."""
        return self._call_calibrated("predict_interval", X, task, **level)

    def predict_set(self, X: object, *, task: str, **level: float) -> NDArray[Any]:
        """Return 1 for the classes in the set of each row, else 0."""
        return self._call_calibrated("predict_set", X, task, **level)

    def _call_calibrated(self, method: str, X: object, task: str, **level: float) -> NDArray[Any]:
        part = self.part(task)
        if method not in part.available_methods():
            missing = _missing_for_levels(self.inner)
            raise InvalidData(
                f"task '{task}' was not trained, and {method} of such tasks is learned from tasks "
                f"that a calibration leaves out; this model was trained {missing}",
                task=task,
            )
        outputs: NDArray[Any] = getattr(part, method)(X, task=task, **level)
        return outputs


def _missing_for_levels(model: Model) -> str:
    """Return what the training of a model lacked to calibrate it for new tasks, and what to do."""
    lacks = [] if isinstance(model, CalibratedModel) else ["calibration"]
    lacks += [] if model.new_tasks == "common" else ["new_tasks 'common'"]
    if lacks:
        return (
            f"without {' and '.join(lacks)}: train it again with calibration and new_tasks 'common'"
        )
    return "with a calibration whose 'leave_tasks_out' is false: train it again without that"


def check_new_tasks(algorithm: Algorithm[Any, Any], params: Params, new_tasks: Any) -> None:
    """Raise InvalidParams if models could not do what is asked about tasks that are not trained."""
    if new_tasks not in get_args(NewTasks):
        expected = " or ".join(map(repr, get_args(NewTasks)))
        raise InvalidParams(f"'new_tasks' is {new_tasks!r}; expected {expected}")
    if new_tasks == "common" and not algorithm.has_common_part(params):
        raise InvalidParams(
            f"'new_tasks' is 'common', but models of {algorithm.name} with these parameters have "
            f"no part that is common to all tasks; leave it out, or train {WITH_COMMON_PART}"
        )


def with_new_tasks(model: Model, names: tuple[str, ...]) -> Model:
    """Return the model with tasks without rows, for which its common part answers.

    Raises
    ------
    UnknownTask
        The tasks of the model have no part in common.
    """
    return NewTasksModel(model, model.for_new_tasks(names), names)


def for_tasks(
    model: Model, names: Collection[str], new_tasks: NewTasks | None = None
) -> tuple[Model, tuple[str, ...]]:
    """Return the model for rows of some tasks, and which of these it was not trained on.

    Parameters
    ----------
    new_tasks
        What to do about tasks that the model was not trained on; None: as the model says.

    Raises
    ------
    UnknownTask
        There are such tasks, and they are refused, or the model has no common part.
    """
    if all(map(model.has_task, names)):
        return model, ()
    new = tuple(dict.fromkeys(name for name in names if not model.has_task(name)))
    if (new_tasks or model.new_tasks) == "common":
        return with_new_tasks(model, new), new
    raise _refusal(model, new)


def _refusal(model: Model, names: tuple[str, ...]) -> UnknownTask:
    """Return the error for tasks that the model was not trained on; it says what else to do."""
    error = unknown_task(names[0], model.tasks)
    try:
        with_new_tasks(model, names)
    except UnknownTask:
        return error
    advice = "new_tasks=common answers by what the tasks have in common"
    return UnknownTask(f"{error.message}; {advice}", task=names[0])
