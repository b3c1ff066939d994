"""Does learning together help? An algorithm and its baselines on the same splits.

Every method sees the same training rows and chooses its free parameters inside them. For each
split the *gain* over a baseline is the difference of the deciding metric, the better way up:
positive where the algorithm is better. Splits of one dataset share rows, so that the plain t test
is far too sure; the variance is corrected by the part that is held out,

    s² (1/J + n_test/n_train)   over J splits, J - 1 degrees of freedom

Reference: Nadeau, Bengio, *Inference for the generalization error*, Machine Learning 52 (2003),
doi:10.1023/A:1024068626366
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.stats import t as student

from algorithms.evaluation.choices import freed
from algorithms.evaluation.metrics import Average, Decides, Metric
from algorithms.evaluation.splits import Splits
from algorithms.evaluation.validation import Scores, in_splits, mean_known, mean_score, means
from algorithms.interface.algorithm import Algorithm, Role

#: Chance of taking noise for a difference that is accepted.
LEVEL: Final = 0.05


class Compare(Decides):
    """How an algorithm is compared with its baselines."""

    splits: Splits = Field(default_factory=Splits, description="How rows are held out.")


class Evaluate(BaseModel):
    """How an algorithm is judged by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    splits: Splits = Field(default_factory=Splits, description="How rows are held out.")


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """A method in a comparison.

    Parameters
    ----------
    role
        ``"candidate"``, or what the baseline stands for.
    values
        Its parameters, as they are given to its ``Params``.
    """

    algorithm: str
    role: Role | Literal["candidate"]
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better the algorithm is than a baseline, with what the splits leave open.

    Parameters
    ----------
    mean, low, high
        In units of the metric, positive where the algorithm is better; a 95 % interval.
    p_value
        Chance of so large a difference, either way, were there none.
    """

    mean: float
    low: float
    high: float
    p_value: float


def compared_methods(
    algorithm: Algorithm[Any, Any], values: Mapping[str, Any]
) -> list[ComparedMethod]:
    """Give the algorithm itself and its baselines, each with its parameters.

    Parameters
    ----------
    values
        Parameters as the user gave them.
    """
    itself = ComparedMethod(algorithm.name, "candidate", freed(algorithm, values))
    params = algorithm.Params.model_validate(itself.values, strict=False)
    baselines = [
        ComparedMethod(
            baseline.algorithm,
            baseline.role,
            {**{name: getattr(params, name) for name in baseline.shares}, **baseline.values},
        )
        for baseline in algorithm.baselines
    ]
    return [itself, *baselines]


def gain(
    ours: Sequence[float | None], theirs: Sequence[float | None], metric: Metric, *, ratio: float
) -> Gain | None:
    """Give the gain over splits in which both have a value; None where these are fewer than two.

    Parameters
    ----------
    ratio
        Held-out rows per training row, n_test/n_train.
    """
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    if len(pairs) < 2:
        return None
    sign = 1.0 if metric.larger_is_better else -1.0
    differences = np.array([sign * (a - b) for a, b in pairs])
    n = len(differences)
    mean = float(differences.mean())
    error = float(np.sqrt(differences.var(ddof=1) * (1 / n + ratio)))
    if error <= abs(mean) * np.finfo(float).eps:  # the same in every split
        return Gain(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    reach = float(student.ppf(1 - LEVEL / 2, n - 1)) * error
    p_value = float(2 * student.sf(abs(mean) / error, n - 1))
    return Gain(mean, mean - reach, mean + reach, p_value)


@dataclass(frozen=True, slots=True)
class MethodScores:
    """A method and what came of it in every split."""

    method: ComparedMethod
    scores: Scores


def compare(
    judged: Sequence[MethodScores], metric: Metric, asked: Compare, *, ratio: float
) -> dict[str, Any]:
    """Give the comparison of the first of some methods with the others, as JSON.

    Parameters
    ----------
    ratio
        Held-out rows per training row.
    """
    itself, *baselines = judged
    ours = itself.scores["by_task"][metric.name]
    overall = []
    by_task: dict[str, list[dict[str, Any]]] = {name: [] for name in ours}
    for baseline in baselines:
        theirs = baseline.scores["by_task"][metric.name]
        label = {"baseline": baseline.method.algorithm, "role": baseline.method.role}
        here, there = (
            in_splits(one.scores, metric.name, asked.average) for one in (itself, baseline)
        )
        whole = gain(here, there, metric, ratio=ratio)
        overall.append(label | _told(whole))
        for task, values in ours.items():
            by_task[task].append(label | _told(gain(values, theirs[task], metric, ratio=ratio)))
    return {
        "metric": metric.name,
        "title": metric.title,
        "larger_is_better": metric.larger_is_better,
        "average": asked.average,
        "splits": asked.splits.told(),
        "n_splits": asked.splits.count(),
        "methods": [_method(entry, metric, asked.average) for entry in judged],
        "overall": overall,
        "by_task": by_task,
    }


def _method(judged: MethodScores, metric: Metric, average: Average) -> dict[str, Any]:
    scores = judged.scores
    return {
        "algorithm": judged.method.algorithm,
        "role": judged.method.role,
        "params": judged.method.values,
        "value": mean_score(scores, metric.name, average),
        **means(scores),
        "by_task": {
            task: mean_known(values) for task, values in scores["by_task"][metric.name].items()
        },
    }


def _told(found: Gain | None) -> dict[str, Any]:
    if found is None:
        return {"gain": None, "low": None, "high": None, "p_value": None}
    return {
        "gain": found.mean,
        "low": found.low,
        "high": found.high,
        "p_value": found.p_value,
    }
