"""The base classes of parameters, and warnings about values chosen at an end of their grid.

The pydantic classes are the single source of the API schema, the documentation, the command line
and the forms.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, model_validator

from algorithms.interface.tasks import describe_tasks

V = TypeVar("V")

#: Loss of the best candidate with each value, by the name of the parameter.
GridLosses = Mapping[str, Mapping[float, float]]
#: Least relative gain beyond the end of a grid for which a further value may matter.
MIN_END_GAIN: Final = 0.01
#: Least ratio of the last three values of a grid from which further values can be judged.
_MIN_RATIO: Final = 5.0

#: Values that parameter selection tries.
Grid = Annotated[tuple[V, ...], Field(strict=False, min_length=1)]
#: Number of folds of a cross-validation.
Folds = Annotated[int, Field(ge=2, le=100, title="Folds")]
#: Maximum number of iterations.
Iterations = Annotated[int, Field(ge=1, le=1_000_000, title="Iterations")]
#: Relative duality gap at which a solver stops.
GapTolerance = Annotated[
    float,
    Field(
        ge=1e-12,
        le=0.1,
        title="Tolerance",
        description="Stop once the relative duality gap is below this.",
    ),
]
#: Whether linear functions have intercepts.
Intercepts = Annotated[
    bool,
    Field(
        title="Intercepts",
        description="Whether each task has an intercept, which is not penalised.",
    ),
]

End = Literal["smallest", "largest"]

_BEYOND: dict[End, str] = {"smallest": "smaller", "largest": "larger"}


class StrictModel(BaseModel):
    """A schema with strict types and no unknown fields.

    ``true`` is not a number and ``"3"`` is not 3. An integer may be written as ``3.0``: JSON has
    one type of numbers, and to JSON Schema both are the same.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _convert_whole_numbers(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = cls.model_fields
        return {
            name: _convert(value, fields[name].annotation) if name in fields else value
            for name, value in data.items()
        }


def _convert(value: Any, annotation: Any) -> Any:
    """Return a value with integers in place of whole floats where the annotation has integers."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _convert(value, arguments[0])
    if origin in (Union, UnionType):
        for argument in () if float in arguments else arguments:
            value = _convert(value, argument)
        return value
    if annotation is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if origin is dict and isinstance(value, dict):
        return {key: _convert(member, arguments[1]) for key, member in value.items()}
    if origin in (list, tuple) and isinstance(value, list | tuple):
        types = set(map(type, value))
        if types & {float, list, tuple, dict}:  # lists of integers can be long
            return [_convert(member, arguments[0]) for member in value]
    return value


class Params(StrictModel):
    """Parameters of an algorithm; fields of subclasses have a title, a description and bounds.

    Types are strict: ``true`` is not a number and ``"3"`` is not 3. Unknown names are an error.
    """

    model_config = ConfigDict(frozen=True)

    #: Parameters that ``selection`` chooses, each with the name of the field with its grid.
    GRIDS: ClassVar[dict[str, str]] = {}
    #: Values of other parameters that an automatic choice tries besides the grids.
    ALTERNATIVES: ClassVar[dict[str, tuple[Any, ...]]] = {}
    #: Value of ``selection`` that chooses parameters inside the training rows.
    INNER_SELECTION: ClassVar[str] = "cv"


def losses_by_value(
    candidates: Sequence[BaseModel], losses: Sequence[float], names: Iterable[str]
) -> GridLosses:
    """Return the loss of the best candidate with each value of each parameter."""
    best: dict[str, dict[float, float]] = {name: {} for name in names}
    for candidate, loss in zip(candidates, losses, strict=True):
        for name, of_value in best.items():
            value = getattr(candidate, name)
            of_value[value] = min(loss, of_value.get(value, loss))
    return best


def end_warnings(
    params: Params,
    chosen: Mapping[str, float],
    *,
    limits: Mapping[str, float] | None = None,
    losses: GridLosses | None = None,
) -> tuple[str, ...]:
    """Return a warning for each parameter that was selected at an end of its grid.

    There is none where the losses of the grid show that further values hardly change the loss.

    Parameters
    ----------
    limits
        Largest effective values, if they are smaller than the bounds of the parameters: for
        example the rank of the rows for a dimension.
    losses
        Losses of the grids, as far as they are known.
    """
    ends = _ends(params, _grids(params, chosen), chosen, limits or {}, losses or {}).items()
    return tuple(
        _sentence(name, end, f"{chosen[name]:g}", place=f"'{params.GRIDS[name]}'")
        for name, end in ends
    )


def search_end_warnings(
    params: Params,
    tried: Mapping[str, Sequence[float]],
    chosen: Mapping[str, float],
    losses: GridLosses,
) -> tuple[str, ...]:
    """Return a warning for each parameter that a search chose at an end of the values it tried.

    Parameters
    ----------
    params
        Parameters of the algorithm, whose class has the bounds.
    chosen
        Selected values by the name of the parameter.
    """
    return tuple(
        _sentence(name, end, f"{chosen[name]:g}", place=f"the search space of '{name}'")
        for name, end in _ends(params, tried, chosen, {}, losses).items()
    )


def end_warnings_by_task(
    params: Params,
    chosen: Mapping[str, Mapping[str, float]],
    *,
    limits: Mapping[str, Mapping[str, float]] | None = None,
    losses: Mapping[str, GridLosses] | None = None,
) -> tuple[str, ...]:
    """Return the warnings of :func:`end_warnings` if parameters were selected per task."""
    tasks: dict[tuple[str, End], list[str]] = {}
    for task, values in chosen.items():
        grids, bounds = _grids(params, values), (limits or {}).get(task, {})
        of_task = (losses or {}).get(task, {})
        for key in _ends(params, grids, values, bounds, of_task).items():
            tasks.setdefault(key, []).append(task)
    return tuple(
        _sentence(
            name,
            end,
            f"{chosen[names[0]][name]:g}, for {describe_tasks(names, len(chosen))},",
            place=f"'{params.GRIDS[name]}'",
        )
        for (name, end), names in tasks.items()
    )


def _grids(params: Params, names: Iterable[str]) -> dict[str, Sequence[float]]:
    return {name: getattr(params, params.GRIDS[name]) for name in names}


def _sentence(name: str, end: End, value: str, *, place: str) -> str:
    return (
        f"the chosen {name} = {value} is the {end} value that was tried: a {_BEYOND[end]} one may "
        f"be better, so add {_BEYOND[end]} values to {place}"
    )


def _ends(
    params: Params,
    grids: Mapping[str, Sequence[float]],
    chosen: Mapping[str, float],
    limits: Mapping[str, float],
    losses: GridLosses,
) -> dict[str, End]:
    """Return the end for each parameter whose value is at an end of its grid that may matter."""
    ends: dict[str, End] = {}
    for name, value in chosen.items():
        grid = grids[name]
        low, high = _bounds(params, name)
        if len(set(grid)) < 2 or _is_level(losses.get(name, {}), value):
            continue
        if value == min(grid) and value > low:
            ends[name] = "smallest"
        elif value == max(grid) and value < min(high, limits.get(name, high)):
            ends[name] = "largest"
    return ends


def _is_level(losses: Mapping[float, float], end: float) -> bool:
    """Return whether values beyond an end of the grid can hardly lower the loss.

    The last three values are judged; of two, or of values close together, nothing follows.
    Where the last steps have gained less and less, the gain per step of log v is extrapolated by
    exponential decay, as of the coefficients of a ridge regression, which fall with 1/v.
    """
    values = sorted(losses, reverse=end != max(losses, default=end))[-3:]
    if len(values) < 3 or values[-1] != end or max(values) < _MIN_RATIO * abs(min(values)):
        return False
    first, middle, last = (losses[value] for value in values)
    before, gain = first - middle, middle - last
    small = MIN_END_GAIN * abs(middle)
    if gain <= small:
        return True
    if min(values) <= 0 or not gain < before < math.inf:
        return False
    lengths = [abs(math.log(b / a)) for a, b in pairwise(values)]
    decay = 2 * math.log(before / lengths[0] * lengths[1] / gain) / sum(lengths)
    return decay > 0 and gain / math.expm1(decay * lengths[1]) <= small


def _bounds(params: Params, name: str) -> tuple[float, float]:
    """Return the bounds of a field; infinite if it has none."""
    metadata: Iterable[object] = type(params).model_fields[name].metadata
    low, high = -float("inf"), float("inf")
    for constraint in metadata:
        low = max(low, getattr(constraint, "ge", low))
        high = min(high, getattr(constraint, "le", high))
    return low, high
