"""Search: which parameters do best on rows that were held out."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from algorithms.evaluation.metrics import Metric
from algorithms.evaluation.validation import Scores, mean_score
from algorithms.interface.errors import InvalidParams

#: Most combinations of values in one search.
MAX_CANDIDATES: Final = 1000


class Search(BaseModel):
    """Which values to try, and how to tell which are best."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    space: dict[str, list[Any]] = Field(
        min_length=1,
        max_length=20,
        description="Values to try of each parameter; every combination is tried.",
    )
    n_folds: int = Field(
        5, ge=2, le=100, description="Parts into which the rows of each task are divided."
    )
    metric: str | None = Field(
        None,
        max_length=64,
        description="What decides: error_rate, rmse, ...; by default what suits the targets.",
    )


def grid(values: Mapping[str, Any], search: Search) -> list[dict[str, Any]]:
    """Give every combination of the values to try, each with the other parameters as given.

    Raises
    ------
    InvalidParams
        There are too many, or a parameter has no value to try.
    """
    for name, tried in search.space.items():
        if not tried:
            raise InvalidParams(f"'{name}' has no value to try", field=name)
    n_candidates = math.prod(len(tried) for tried in search.space.values())
    if n_candidates > MAX_CANDIDATES:
        raise InvalidParams(
            f"the values to try have {n_candidates} combinations, and {MAX_CANDIDATES} may be tried"
        )
    return [
        {**values, **dict(zip(search.space, combination, strict=True))}
        for combination in itertools.product(*search.space.values())
    ]


def best(results: Sequence[Scores], metric: Metric) -> int:
    """Give the position of the best result; of several, the first."""
    sign = -1.0 if metric.larger_is_better else 1.0
    losses = [sign * mean_score(scores[metric.name]) for scores in results]
    return losses.index(min(losses))
