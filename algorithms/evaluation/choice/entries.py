"""Contenders of an automatic choice, and mixtures of them, with their scores on held-out rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from algorithms.evaluation.comparison.no_verdict import TRIVIAL
from algorithms.evaluation.selection.validation import Scores
from algorithms.interface.algorithm import Role

#: Kind of a method that ignores the columns, as in comparisons.
TRIVIAL_KIND: Final = "trivial"


def kind_of(method: Mapping[str, Any]) -> str:
    """Return how a method of a report learns the tasks: its role, or that it ignores columns."""
    return TRIVIAL_KIND if method["algorithm"] == TRIVIAL else str(method["role"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A mixture of the contenders of a side.

    Parameters
    ----------
    label
        The keys that identify it in a report.
    scores
        Scores in every split, by weights that were learned without its held-out rows.
    """

    label: Mapping[str, str]
    scores: Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A contender with its scores in every split.

    Parameters
    ----------
    weight
        Its weight in the model.
    loss
        Mean over tasks of the logarithm of its mean squared error in units of the variance of all
        targets, or of its log loss.
    n_chosen
        Number of splits without which it has a weight.
    fit_s, predict_s, total_s
        Processor time of the fit with all rows, of predictions per 1,000 rows, and of all fits.
    left_out_tasks
        Mean score on left-out tasks; None if it is unknown.
    """

    algorithm: str
    role: Role
    variant: str
    scores: Scores
    params: Mapping[str, Any]
    weight: float = 0.0
    loss: float = 0.0
    n_chosen: int = 0
    fit_s: float = 0.0
    predict_s: float = 0.0
    total_s: float = 0.0
    left_out_tasks: float | None = None

    def label(self) -> dict[str, str]:
        """Return the keys that identify the contender in a report."""
        return {"algorithm": self.algorithm, "role": self.role, "variant": self.variant}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Mixtures of contenders; None where a side has no contender.

    Parameters
    ----------
    together
        Of all contenders, if some learn tasks together or pooled: whoever may share may also learn
        alone.
    apart, multi_task, pooled
        Of the contenders that learn each task alone, by a multi-task method, or pooled.
    trivial
        Of those that ignore the columns.
    """

    model: Side
    together: Side | None = None
    apart: Side | None = None
    multi_task: Side | None = None
    pooled: Side | None = None
    trivial: Side | None = None

    def by_kind(self) -> dict[str, Side]:
        """Return the sides that a verdict compares, and those below them, by kind."""
        named = {
            "multi_task": self.together,
            "pooled": self.pooled,
            "single_task": self.apart,
            TRIVIAL_KIND: self.trivial,
        }
        return {kind: side for kind, side in named.items() if side is not None}
