"""Sources and contents of plots."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.scores.metrics import IN_TARGET_UNITS
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.model import Model

#: Words in names of metrics that are written otherwise.
_METRIC_WORDS: Final = {
    "rmse": "RMSE",
    "r2": "R²",
    "auc": "AUC",
    "rvr": "retained variance ratio",
}

#: A row of a table: its values by column.
Row = dict[str, Any]

#: Maximum number of outputs or tasks along an axis with names.
MAX_NAMES: Final = 60
#: Maximum number of metrics, one panel each.
MAX_METRICS: Final = 4
#: Maximum number of points of a curve.
MAX_STEPS: Final = 500


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rows with their targets and predictions.

    Parameters
    ----------
    task, true, predicted : (n,)
    scores
        Decision function of each task, with its classes, if the targets are classes.
    n_rows
        Number of all rows if these are a sample; None otherwise.
    what
        Term for a row in sentences.
    """

    task: NDArray[Any]
    true: NDArray[Any]
    predicted: NDArray[Any]
    scores: Mapping[str, tuple[NDArray[np.float64], Sequence[Any]]] = field(default_factory=dict)
    n_rows: int | None = None
    what: str = "row"

    def sampled(self) -> tuple[str, ...]:
        """Return a note if these are a sample."""
        total = len(self.true) if self.n_rows is None else self.n_rows
        return kept(len(self.true), total, f"{self.what}s")


@dataclass(frozen=True, slots=True)
class Source:
    """Data on a model; each plot is available if the data that it needs is.

    Parameters
    ----------
    steps
        Recorded steps of the fit, by column, as in the history of a model in the service.
    report
        Results of search, comparison and evaluation, as in the report of such a model.
    rows
        Rows that were predicted: given by the caller, or held out in an evaluation.
    importance
        Importance of the columns, as of a model in the service.
    """

    model: Model | None = None
    steps: Mapping[str, Sequence[Any]] | None = None
    report: Mapping[str, Any] | None = None
    rows: HeldOut | None = None
    importance: Mapping[str, Any] | None = None

    @property
    def group(self) -> str:
        """Name of the column of tasks."""
        column: str = getattr(self.model, "task_column", DEFAULT_TASK_COLUMN)
        return column

    def learned(self) -> dict[str, Any]:
        """Return the learned quantities of the model by name."""
        return {} if self.model is None else self.model.learned()

    def part(self, name: str) -> Mapping[str, Any] | None:
        """Return a part of the report; None if there is none."""
        section: Mapping[str, Any] | None = (self.report or {}).get(name)
        return section


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a plot.

    Parameters
    ----------
    tables
        Rows by the name of their table; every number is finite or None.
    sentence
        Description of the plot, also for readers who only have the text.
    notes
        Omissions, and the rule of each.
    options
        Further input of the drawing, such as titles of axes.
    """

    tables: Mapping[str, Sequence[Row]]
    sentence: str
    notes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plot:
    """A kind of plot.

    Parameters
    ----------
    describe
        Returns the content for a source; None if the source lacks the data to show.
    draw
        Returns the chart of altair for a content. Its data are the tables, by name.
    target
        Kind of the targets of the rows that are shown; None for plots without rows.
    needs
        Kind that the targets of the rows must have.
    """

    name: str
    title: str
    describe: Callable[[Source], Content | None]
    draw: Callable[[Content], Any]
    target: Literal["numbers", "classes"] | None = None
    needs: str = ""


def spread(n: int, limit: int) -> list[int]:
    """Return at most ``limit`` evenly spaced positions of n, with the first and the last."""
    if n <= limit:
        return list(range(n))
    return [round(i) for i in np.linspace(0, n - 1, limit).tolist()]


def finite(value: Any) -> float | None:
    """Return a number, or None if it is missing or not finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "1 task", "2 tasks"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def kept(shown: int, total: int, what: str, rule: str = "evenly spaced") -> tuple[str, ...]:
    """Return a note if not all of something is shown.

    Parameters
    ----------
    what
        Plural noun.
    rule
        How the shown items were chosen.
    """
    return () if shown >= total else (f"{shown:,} of {total:,} {what} are shown ({rule}).",)


def metric_words(metric: str, unit: str | None = None) -> str:
    """Return the name of a metric as people write it: ``train_rmse`` as ``train RMSE``.

    Parameters
    ----------
    unit
        Name of the target, which metrics on its scale get.
    """
    words = " ".join(_METRIC_WORDS.get(word, word) for word in metric.split("_"))
    return f"{words} of {unit}" if unit and metric in IN_TARGET_UNITS else words
