"""Candidates that differ in one parameter are learned one after the other, where that is faster."""

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
    """Return the positions of candidates, those together that differ along a path alone.

    Parameters
    ----------
    candidates
        Parameters, all with the same names.
    """
    if algorithm.path_param is None:
        return [[which] for which in range(len(candidates))]
    found: dict[str, list[int]] = {}
    for which, values in enumerate(candidates):
        rest = {name: value for name, value in values.items() if name != algorithm.path_param}
        found.setdefault(repr(sorted(rest.items())), []).append(which)
    return list(found.values())


def fit_candidates(algorithm: Algo, candidates: Sequence[Mapping[str, Any]]) -> Fit:
    """Return what makes the models of some training rows, one for each candidate."""
    params = [algorithm.parse(values) for values in candidates]
    parts = group_by_path(algorithm, candidates)

    def fit(train: TaskSet, rng: np.random.Generator) -> Sequence[Model]:
        models: dict[int, Model] = {}
        for part in parts:
            # the draws of a candidate do not depend on which others are tried
            learned = algorithm.fit_path(
                train, [params[which] for which in part], trace=Trace(), rng=deepcopy(rng)
            )
            models |= zip(part, learned, strict=True)
        return [models[which] for which in range(len(params))]

    return fit
