"""Fits as jobs make them: the same checks, preparation, trace and random numbers."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, get_args

import numpy as np
from pydantic import TypeAdapter, ValidationError

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams, UnusedWeights
from algorithms.interface.model import Model
from algorithms.interface.new_tasks import NewTasks
from algorithms.interface.params import Params, StrictModel
from algorithms.interface.task_values import class_codes
from algorithms.interface.tasks import TargetKind, TaskSummary
from algorithms.interface.ties import Ties
from algorithms.interface.trace import Trace
from algorithms.interface.units import tie_rows
from algorithms.interface.weights import ClassWeight
from algorithms.numerics.threads import limit_blas_threads
from algorithms.registry import explain_weights
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.calibration.options import Calibration
from algorithms.wrappers.new_tasks import check_new_tasks
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.preparation.columns import is_one_category
from algorithms.wrappers.preparation.recipe import Recipe
from algorithms.wrappers.weights import weighted
from sibling.estimators.inputs import Given, read_tasks
from sibling.estimators.kinds import Kind, as_labels, kind_of, kinds_of
from sibling.estimators.tables import FitWarning

S = TypeVar("S", bound=StrictModel)
_CLASS_WEIGHT: Final = TypeAdapter[ClassWeight | None](ClassWeight | None)


def parse_params(algorithm: Algorithm[Any, Any], values: Mapping[str, Any]) -> Params:
    """Return the parameters of an algorithm; None, and the default itself, are not given."""
    fields = algorithm.Params.model_fields
    given = {
        name: _plain(value)
        for name, value in values.items()
        if value is not None and not (name in fields and _equals(value, fields[name].default))
    }
    params: Params = algorithm.parse(given)
    return params


def _equals(value: Any, default: Any) -> bool:
    return type(value) is type(default) and isinstance(value, str | float) and value == default


def parse_recipe(options: Mapping[str, Any] | None) -> Recipe | None:
    """Return the options of a preparation.

    Raises
    ------
    InvalidParams
        An option is unknown or has a wrong value.
    """
    return None if options is None else _parse(Recipe, options, name="preparation")


def parse_calibration(options: Any) -> Calibration | None:
    """Return the options of a calibration, a mapping or True for the defaults; None without.

    Raises
    ------
    InvalidParams
        An option is unknown or has a wrong value.
    """
    if options is None or options is False:
        return None
    options = {} if options is True else options
    if isinstance(options, Mapping) and isinstance(options.get("threshold"), Mapping):
        options = {**options, "threshold": _by_label(options["threshold"])}
    return _parse(Calibration, options, name="calibration")


def parse_class_weight(value: Any) -> ClassWeight | None:
    """Return weights of classes as jobs have them: a name, or weights by the text of the class.

    Raises
    ------
    InvalidParams
        It is neither a known name nor positive weights by class.
    """
    if isinstance(value, Mapping):
        value = {label: float(weight) for label, weight in _by_label(value).items()}
    try:
        return _CLASS_WEIGHT.validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[-1]["msg"]
        raise InvalidParams(f"'class_weight': {problem}", field="class_weight") from None


def _by_label(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values by the text of classes, which may be text, integers or booleans."""
    return {str(as_labels(np.array([label]))[0]): value for label, value in values.items()}


def tied(data: Given, value: Any) -> Given:
    """Return the tasks, whose equal rows are held out together as an option says.

    Raises
    ------
    InvalidParams
        It is none of the known values.
    """
    known = get_args(Ties)
    if value not in known:
        detail = f"'ties' is {value!r}, expected one of {', '.join(map(repr, known))}"
        raise InvalidParams(detail, field="ties")
    ties: Ties = value
    tasks = tie_rows(data.tasks, ties, is_category=is_one_category(data.columns))
    return replace(data, tasks=tasks)


def _parse(schema: type[S], options: Mapping[str, Any], *, name: str) -> S:
    try:
        return schema.model_validate(_plain(options), strict=False)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = "/".join(str(part) for part in (name, *first["loc"]))
        raise InvalidParams(f"'{field}': {first['msg']}", field=field) from None


def min_rows(algorithm: Algorithm[Any, Any], params: Params, kind: Kind | None) -> int:
    """Return the minimum number of rows of a single task, at most 2."""
    summary = TaskSummary("", n_samples=1, n_features=10**9, target=kind or "none", n_classes=2)
    try:
        algorithm.check([summary], params)
        algorithm.check_selection([summary], params)
    except (InvalidData, InvalidParams):
        return max(algorithm.needs.min_samples, 2)
    return algorithm.needs.min_samples


def read_fit(
    estimator: Any,
    spec: Any,
    X: Any,
    y: Any,
    *,
    tasks: Any,
    groups: Any,
    sample_weight: Any,
) -> tuple[Params, Given]:
    """Return the parameters and the tasks of a fit.

    Parameters
    ----------
    estimator
        Gets the numbers and names of the columns.
    spec
        The estimator with the parameters.

    Raises
    ------
    ValueError
        The rows do not meet the requirements of the algorithm, or a parameter is out of bounds.
    """
    algorithm = spec._algorithm  # noqa: SLF001 - of the estimators
    params = parse_params(algorithm, spec._values())  # noqa: SLF001 - as above
    kind = kind_of(
        y,
        kinds_of(algorithm),
        target=str(getattr(spec, "target", "auto")),
        is_needed=algorithm.needs.target != "none",
    )
    data = read_tasks(
        estimator,
        X,
        y,
        tasks=tasks,
        groups=groups,
        sample_weight=sample_weight,
        needs=algorithm.needs,
        kind=kind,
        min_rows=min_rows(algorithm, params, kind),
    )
    return params, data


def takes_sparse_rows(algorithm: Algorithm[Any, Any], values: Mapping[str, Any]) -> bool:
    """Return whether rows may be sparse with these values of the parameters."""
    kinds = kinds_of(algorithm)
    target: TargetKind = kinds[0] if kinds else "none"
    task = TaskSummary("", n_samples=99, n_features=9, target=target, n_classes=2, n_stored=99)
    try:
        algorithm.check([task], parse_params(algorithm, values))
    except (InvalidData, InvalidParams):
        return False
    return True


def check_fit(algorithm: Algorithm[Any, Any], data: Given, params: Params) -> None:
    """Raise InvalidData or InvalidParams if an algorithm cannot be fitted to the tasks."""
    summaries = data.tasks.summaries()
    try:
        algorithm.check(summaries, params)
    except UnusedWeights as error:
        raise explain_weights(error) from None
    algorithm.check_selection(summaries, params)


def fit_model(
    algorithm: Algorithm[Any, Any],
    data: Given,
    params: Params,
    *,
    recipe: Recipe | None,
    calibration: Calibration | None,
    class_weight: ClassWeight | None,
    new_tasks: NewTasks,
    trace: Trace,
    seed: Any,
) -> Model:
    """Return the model that a job makes of the same tasks, parameters and seed.

    Parameters
    ----------
    recipe
        Options of the preparation; None: only where columns need it, with the defaults.
    calibration
        Options of the calibration; None: without.
    class_weight
        Weights of classes that the fit multiplies with the weights of the rows; None: equal.
    new_tasks
        What calls of the model do about tasks that it was not trained on.
    """
    ready = prepared(algorithm, data.columns, recipe)
    check_new_tasks(ready, params, new_tasks)
    has_weights = any(task.weights is not None for task in data.tasks)
    options = None if calibration is None else calibration.for_new_tasks(new_tasks)
    ready = calibrated(weighted(ready, class_weight, has_weights=has_weights), options)
    check_fit(ready, data, params)
    with limit_blas_threads(data.tasks.order):
        model: Model = ready.fit(data.tasks, params, trace=trace, rng=np.random.default_rng(seed))
    return model.with_new_tasks(new_tasks)


def warn_of_codes(data: Given) -> None:
    """Issue a warning if numeric targets look like codes of classes."""
    numbers = (task.y for task in data.tasks if task.y is not None and task.target == "numbers")
    values = class_codes(numbers)
    if values:
        listed = ", ".join(f"{value:.15g}" for value in values)
        warning = (
            f"all targets are integers with {len(values)} distinct values ({listed}) and are used "
            "as numbers, for regression; if they are class codes, set target='classes', and if "
            "they are numbers, target='numbers'"
        )
        warnings.warn(warning, FitWarning, stacklevel=3)


def warn_of_fit(model: Model) -> None:
    """Issue the warnings of a model."""
    for warning in model.warnings:
        warnings.warn(f"{model.algorithm}: {warning}", FitWarning, stacklevel=4)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: numpy's numbers and arrays become Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value
