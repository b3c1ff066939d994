"""Fits as jobs make them: the same checks, preparation, trace and random numbers."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.target_codes import class_codes
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.trace import Trace
from algorithms.preparation.algorithm import prepared
from algorithms.preparation.recipe import Recipe
from sibling.estimators.inputs import Given
from sibling.estimators.kinds import Kind
from sibling.estimators.tables import FitWarning


def parse_params(algorithm: Algorithm[Any, Any], values: Mapping[str, Any]) -> Params:
    """Return the parameters of an algorithm; those that are None have their defaults."""
    params: Params = algorithm.parse(
        {name: _plain(value) for name, value in values.items() if value is not None}
    )
    return params


def parse_recipe(options: Mapping[str, Any] | None) -> Recipe | None:
    """Return the options of a preparation.

    Raises
    ------
    InvalidParams
        An option is unknown or has a wrong value.
    """
    if options is None:
        return None
    try:
        return Recipe.model_validate(_plain(options), strict=False)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = "/".join(str(part) for part in ("preparation", *first["loc"]))
        raise InvalidParams(f"'{field}': {first['msg']}", field=field) from None


def min_rows(algorithm: Algorithm[Any, Any], params: Params, kind: Kind | None) -> int:
    """Return the minimum number of rows of a single task, at most 2."""
    one = TaskSummary("", n_samples=1, n_features=10**9, target=kind or "none", n_classes=2)
    try:
        algorithm.check([one], params)
        algorithm.check_selection([one], params)
    except (InvalidData, InvalidParams):
        return max(algorithm.needs.min_samples, 2)
    return algorithm.needs.min_samples


def fit_model(
    algorithm: Algorithm[Any, Any],
    given: Given,
    params: Params,
    *,
    recipe: Recipe | None,
    trace: Trace,
    seed: Any,
) -> Model:
    """Return the model that a job makes of the same tasks, parameters and seed."""
    ready = prepared(algorithm, given.columns, recipe)
    summaries = given.tasks.summaries()
    ready.check(summaries, params)
    ready.check_selection(summaries, params)
    model: Model = ready.fit(given.tasks, params, trace=trace, rng=np.random.default_rng(seed))
    return model


def warn_of_codes(given: Given) -> None:
    """Issue a warning if numeric targets look like codes of classes."""
    numbers = (task.y for task in given.tasks if task.y is not None and task.target == "numbers")
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
