"""Fit candidates along a regularisation path where an algorithm has one.

Candidates that differ in the path parameter alone are fitted one after the other with warm starts.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from algorithms.evaluation.validation import Fit
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace

Algo = Algorithm[Any, Any]


def group_by_path(algorithm: Algo, candidates: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Return the positions of the candidates in groups that differ in the path parameter alone.

    Parameters
    ----------
    candidates
        Parameter values, all with the same names.
    """
    if algorithm.path_param is None:
        return [[position] for position in range(len(candidates))]
    groups: dict[str, list[int]] = {}
    for position, values in enumerate(candidates):
        rest = {name: value for name, value in values.items() if name != algorithm.path_param}
        groups.setdefault(repr(sorted(rest.items())), []).append(position)
    return list(groups.values())


def fit_candidates(algorithm: Algo, candidates: Sequence[Mapping[str, Any]]) -> Fit:
    """Return a function that fits one model per candidate on given training rows."""
    params = [algorithm.parse(values) for values in candidates]
    groups = group_by_path(algorithm, candidates)

    def fit(train: TaskSet, rng: np.random.Generator) -> Sequence[Model]:
        models: dict[int, Model] = {}
        for group in groups:
            # copy: the random numbers of a candidate must not depend on the other candidates
            fitted = algorithm.fit_path(
                train, [params[position] for position in group], trace=Trace(), rng=deepcopy(rng)
            )
            models |= zip(group, fitted, strict=True)
        return [models[position] for position in range(len(params))]

    return fit
