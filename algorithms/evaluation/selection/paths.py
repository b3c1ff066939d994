"""Fit candidates along a regularisation path if the algorithm supports it.

Such an algorithm has a *path parameter*, such as the strength of regularisation. Candidates that
differ in this parameter alone are fitted one after the other, each started from the previous
solution.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from algorithms.evaluation.selection.validation import Fit
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import Diverged
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace

Algo = Algorithm[Any, Any]


def group_by_path(algorithm: Algo, candidates: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Group the candidates that differ in the path parameter alone; return their positions.

    Parameters
    ----------
    candidates
        Parameter values, all with the same names.
    """
    if algorithm.path_param is None:
        return [[position] for position in range(len(candidates))]
    groups: dict[str, list[int]] = {}
    for position, values in enumerate(candidates):
        others = {name: value for name, value in values.items() if name != algorithm.path_param}
        groups.setdefault(repr(sorted(others.items())), []).append(position)
    return list(groups.values())


def fit_candidates(algorithm: Algo, candidates: Sequence[Mapping[str, Any]]) -> Fit:
    """Return a function that fits one model per candidate on given training rows.

    It returns the error in place of a model whose fit diverged.
    """
    params = [algorithm.parse(values) for values in candidates]
    groups = group_by_path(algorithm, candidates)

    def fit_group(
        train: TaskSet, group: Sequence[int], rng: np.random.Generator
    ) -> Sequence[Model | Diverged]:
        try:
            # copy: the random numbers of a candidate must not depend on the other candidates
            return algorithm.fit_path(
                train,
                [params[position] for position in group],
                trace=Trace(),
                rng=deepcopy(rng),
            )
        except Diverged as error:
            if len(group) == 1:
                return [error]
            return [model for position in group for model in fit_group(train, [position], rng)]

    def fit(train: TaskSet, rng: np.random.Generator) -> Sequence[Model | Diverged]:
        fitted: dict[int, Model | Diverged] = {}
        for group in groups:
            fitted |= zip(group, fit_group(train, group, rng), strict=True)
        return [fitted[position] for position in range(len(params))]

    return fit


def fit_single(algorithm: Algo, values: Mapping[str, Any]) -> Fit:
    """Return a function that fits one candidate to training rows; errors of the fit are raised."""
    params = algorithm.parse(values)

    def fit(train: TaskSet, rng: np.random.Generator) -> Sequence[Model]:
        return algorithm.fit_path(train, [params], trace=Trace(), rng=deepcopy(rng))

    return fit
