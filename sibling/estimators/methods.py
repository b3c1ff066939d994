"""Methods of estimators that apply a trained model to rows."""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from algorithms.interface.errors import InvalidData, rows_at
from algorithms.interface.lists import list_names
from algorithms.interface.methods import CLASS_METHODS, DEFAULT_LEVEL, LEVEL_METHODS
from algorithms.interface.model import Model, apply
from algorithms.interface.new_tasks import NewTasks, NewTasksWarning
from algorithms.interface.tasks import TargetKind
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.calibration.model import CALIBRATED_METHODS
from algorithms.wrappers.calibration.options import Calibration
from algorithms.wrappers.new_tasks import for_tasks
from sibling.estimators.inputs import (
    check_by_task,
    check_no_times,
    clean_name,
    is_by_task,
    read_names,
    read_new_rows,
    split_tasks,
)
from sibling.estimators.kinds import check_complete, kinds_of

#: Metadata that scikit-learn passes on to calls of a model.
CALL_REQUEST: Final = {"tasks": True, "new_tasks": True}
_PARAMETERS: Final = """
Parameters
----------
X : (n_samples, n_columns), or such rows by task
tasks : (n_samples,), or the name of the task of all rows
    The task of each row. Default: the column of X with the name of the task column in ``fit``, or
    ``task``; else the only task of the model.
new_tasks
    What to do about tasks that the model was not trained on: ``"refuse"`` them, or answer by what
    its tasks have in ``"common"``, with a warning that names them. Default: as in ``fit``.

Returns
-------
One entry for each row; by task if X is by task.

Raises
------
ValueError
    The model does not have a task, or the rows do not fit it.
"""


_LEVEL: Final = "\n``level`` is the share of new rows that the outputs cover.\n"


def call(
    estimator: Any,
    method: str,
    X: Any,
    tasks: Any,
    *,
    level: float | None = None,
    new_tasks: NewTasks | None = None,
) -> Any:
    """Return the outputs of a method of the model for rows of any of its tasks.

    Parameters
    ----------
    level
        Level of intervals and sets; None: the default.
    new_tasks
        What to do about tasks that the model was not trained on; None: as in the fit.

    Returns
    -------
    One entry for each row, in their order; by task if X is by task.

    Raises
    ------
    ValueError
        The model does not have a task, or the rows do not fit it.
    """
    if is_by_task(X):
        if tasks is not None:
            raise InvalidData("X has the rows by task, so tasks= must be left out")
        return {
            name: call(estimator, method, rows, str(name), level=level, new_tasks=new_tasks)
            for name, rows in X.items()
        }
    check_is_fitted(estimator)
    model = estimator.model_
    # a column of the model is no other one, also where it has the name of a column of tasks
    names_by_task = estimator._names_by_task  # noqa: SLF001 - of the estimators
    others = {name for names in names_by_task.values() for name in names or ()}
    X, tasks = split_tasks(X, tasks, column=estimator._task_column, others=others)  # noqa: SLF001
    if tasks is None:
        tasks = _sole_task(model.tasks)
    expected = None
    if np.ndim(tasks) == 0:
        tasks = clean_name(tasks)
        expected = names_by_task.get(tasks)
    rows = read_new_rows(estimator, X, method, expected=expected)
    names, codes = read_names(tasks, rows.shape[0])
    model, compute = _bind(model, method, names, level, new_tasks)
    if len(names) == 1:
        return _restore(estimator, method, compute(rows, names[0]))
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(1, len(names)))
    parts = []
    for name, positions in zip(names, np.split(order, ends), strict=True):
        with rows_at(positions):
            parts.append(compute(rows[positions], name))
    _check_columns(model, method, names, parts)
    joined = np.concatenate(parts)
    outputs = np.empty_like(joined)
    outputs[order] = joined
    return _restore(estimator, method, outputs)


def _bind(
    model: Any, method: str, tasks: list[str], level: float | None, new_tasks: NewTasks | None
) -> tuple[Any, Callable[[Any, str], NDArray[Any]]]:
    """Return the model for some tasks, and a function that calls it with rows of one of them.

    It issues a warning that names those that the model was not trained on.
    """
    if isinstance(model, Model):
        model, new = for_tasks(model, tasks, new_tasks)
        if new:
            warnings.warn(NewTasksWarning(new), stacklevel=4)
        return model, lambda rows, task: apply(model, method, rows, task=task, level=level)
    options = {} if level is None else {"level": level}
    compute = partial(getattr(model, method), new_tasks=new_tasks, **options)
    return model, lambda rows, task: np.asarray(compute(rows, task=task))


def make_method(model: type[Model], name: str) -> Any:
    """Return the method of estimators with a method of a model class."""
    method = make_call(name)
    first, _, _ = (inspect.getdoc(getattr(model, name)) or "").partition("\n")
    method.__doc__ = f"{first}\n{_LEVEL if name in LEVEL_METHODS else ''}{_PARAMETERS}"
    kinds: tuple[TargetKind, ...] = ("none", "numbers", "classes")
    is_general = all(name in model.methods_for(kind) for kind in kinds)
    if is_general and name not in {"decision_function", *CALIBRATED_METHODS}:
        return method
    return available_if(partial(_is_available, name=name))(method)


def make_call(name: str) -> Any:
    """Return a function that calls a method of a model, with a level if it takes one."""

    def method(self: Any, X: Any, *, tasks: Any = None, new_tasks: Any = None) -> Any:
        return call(self, name, X, tasks, new_tasks=new_tasks)

    def method_of_level(
        self: Any,
        X: Any,
        *,
        tasks: Any = None,
        level: float = DEFAULT_LEVEL,
        new_tasks: Any = None,
    ) -> Any:
        return call(self, name, X, tasks, level=level, new_tasks=new_tasks)

    chosen = method_of_level if name in LEVEL_METHODS else method
    chosen.__name__ = chosen.__qualname__ = name
    return chosen


def _is_available(estimator: Any, *, name: str) -> bool:
    """Return whether an estimator has a method, given the targets it is or was fitted to.

    Where targets are numbers, the decision function is the prediction; scikit-learn has none there.
    """
    algorithm = estimator._algorithm  # noqa: SLF001 - of the estimators
    kinds = kinds_of(algorithm)
    target = getattr(estimator, "target", "auto")
    if hasattr(estimator, "model_"):
        methods = estimator.model_.available_methods()
        target = "classes" if hasattr(estimator, "classes_") else "numbers"
    else:
        kind = next((kind for kind in kinds if kind == target), kinds[0])
        is_calibrated = estimator.calibration not in (None, False)
        methods = calibrated(algorithm, Calibration() if is_calibrated else None).methods_for(kind)
    return name in methods and not (name == "decision_function" and target == "numbers")


def score(self: Any, X: Any, y: Any, sample_weight: Any = None, *, tasks: Any = None) -> float:
    """Return the accuracy of predicted classes, or R² of predicted numbers, over all rows.

    Parameters
    ----------
    X : (n_samples, n_features), or such rows by task
    y : (n_samples,), or by task
    sample_weight : (n_samples,), or by task
        Weights of the rows; equal by default.
    tasks : (n_samples,)
        The task of each row.
    """
    check_by_task(X, y, "y")
    check_by_task(X, sample_weight, "sample_weight")
    check_complete(y, "target")
    predicted = self.predict(X, tasks=tasks)
    if isinstance(predicted, Mapping):
        y = _concatenate(y, predicted, "y")
        if sample_weight is not None:
            sample_weight = _concatenate(sample_weight, predicted, "sample_weight")
        predicted = np.concatenate(list(predicted.values()))
    if not hasattr(self, "classes_"):
        check_no_times(np.asarray(y), "y")
    measure = accuracy_score if hasattr(self, "classes_") else r2_score
    return float(measure(y, predicted, sample_weight=sample_weight))


def _concatenate(values: Any, outputs: Mapping[Any, Any], what: str) -> NDArray[Any]:
    """Return values by task in the order of the outputs; raise InvalidData if lengths differ."""
    arrays = {name: np.asarray(values[name]) for name in outputs}
    for name, array in arrays.items():
        if array.shape[:1] != outputs[name].shape[:1]:
            raise InvalidData(
                f"expected {what} for each of the {len(outputs[name])} rows of task '{name}', got "
                f"shape {array.shape}",
                task=str(name),
            )
    return np.concatenate(list(arrays.values()))


class Transformer(ClassNamePrefixFeaturesOutMixin):  # type: ignore[misc]
    """Mixin of estimators with ``transform``."""

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        tasks: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Train a model and return the coordinates of its rows; the parameters are of ``fit``."""
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        fitted = self.fit(X, y, tasks=tasks, groups=groups, **options)
        return fitted.transform(X, tasks=tasks)

    @property
    def _n_features_out(self) -> int:
        """Number of coordinates."""
        model = self.model_
        counts = {_n_outputs(model, task) for task in model.tasks}
        if len(counts) > 1:
            raise InvalidData("the tasks have different numbers of coordinates; pass X by task")
        return counts.pop()


def _n_outputs(model: Any, task: str) -> int:
    if "inverse_transform" in model.available_methods():
        return int(model.width("inverse_transform", task=task))
    row = np.zeros((1, model.width("transform", task=task)))
    return int(model.transform(row, task=task).shape[1])


def by_task(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that applies ``transform`` as scikit-learn wrapped it to rows by task."""

    @functools.wraps(transform)
    def transform_rows(self: Any, X: Any, *, tasks: Any = None, new_tasks: Any = None) -> Any:
        if is_by_task(X) and tasks is None:
            return {
                name: transform(self, rows, tasks=str(name), new_tasks=new_tasks)
                for name, rows in X.items()
            }
        return transform(self, X, tasks=tasks, new_tasks=new_tasks)

    return transform_rows


def _sole_task(tasks: tuple[str, ...]) -> str:
    """Return the task of rows without the name of one."""
    if len(tasks) == 1:
        return tasks[0]
    raise InvalidData(
        f"the model has several tasks: {list_names(tasks)}; pass the task of each row as tasks=. "
        "In a Pipeline or a search, call sklearn.set_config(enable_metadata_routing=True) before"
    )


def _check_columns(model: Any, method: str, names: list[str], parts: list[NDArray[Any]]) -> None:
    """Raise InvalidData if the outputs of tasks differ in their columns, or these in classes."""
    has_class_columns = method in CLASS_METHODS and parts[0].ndim == 2
    # a model of the service does not say the classes of tasks that it was not trained on
    known = model.tasks if has_class_columns else ()
    labels = {name: model.classes(name) for name in names if name in known}
    first = next(iter(labels.values()), ())
    for name, part in zip(names, parts, strict=True):
        if part.shape[1:] != parts[0].shape[1:] or labels.get(name, first) != first:
            raise InvalidData(
                f"{method} has other columns for task '{name}' than for task '{names[0]}'; pass X "
                "by task, {'a': rows, 'b': rows}, to get one array for each",
                task=name,
            )


def _restore(estimator: Any, method: str, outputs: NDArray[Any]) -> NDArray[Any]:
    """Return predicted labels in the dtype of the labels given to ``fit``.

    Integers stay so if only the labels of other tasks are text.
    """
    if method != "predict" or not hasattr(estimator, "classes_"):
        return outputs
    dtype = estimator.classes_.dtype
    return outputs if outputs.dtype.kind == "i" and dtype.kind in "OU" else outputs.astype(dtype)
