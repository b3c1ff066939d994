"""What training rows were like, and which error they promised."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from algorithms.evaluation.monitoring.columns import Histogram
from algorithms.evaluation.monitoring.errors import Promise
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.model import preparation_of
from service.datasets.distributions import N_BINS, shown_value
from service.models.columns import training_tasks
from service.models.store import ServableVersion
from service.monitoring.columns import names_of
from service.monitoring.context import MonitorServices
from sibling.plots import held_out_scores


@dataclass(frozen=True, slots=True)
class TrainedColumns:
    """Histograms of the training rows by task and column.

    Attributes
    ----------
    bin_names
        What the counts are of: below, each interval or level, above or unknown, and missing.
    places
        Positions of the columns in rows, by task.
    tasks
        Number of training rows by task.
    """

    histograms: dict[tuple[str, str], Histogram]
    bin_names: dict[tuple[str, str], list[str]]
    places: dict[str, dict[str, int]]
    tasks: dict[str, int]


def trained_columns(
    services: MonitorServices, session: Session, served: ServableVersion
) -> TrainedColumns:
    """Query the histograms of the training rows of a version, as far as manifests have them."""
    trained = TrainedColumns({}, {}, {}, {})
    preparation = preparation_of(services.inference.models.get(served))
    for name, task in training_tasks(session, served.id).items():
        trained.tasks[name] = int(task.entry["n_samples"])
        features = task.entry.get("features")
        names = names_of(services.columns, served.id, name, task.entry["n_features"])
        trained.places[name] = {column: j for j, column in enumerate(names)}
        if not features or "counts" not in features:
            continue
        prepared = None if preparation is None else preparation.of(name).columns
        of_model = {column.name: column for column in prepared or ()}
        for j, counts in enumerate(features["counts"]):
            column = task.kinds.get(names[j], Column(names[j]))
            n_missing = int(features["missing"][j])
            low, high = features["min"][j], features["max"][j]
            key = name, names[j]
            if column.kind == "category":
                levels = of_model.get(names[j], column).levels
                by_level = dict(zip(column.levels, counts, strict=True))
                of_levels = np.array([by_level.get(level, 0) for level in levels], float)
                trained.histograms[key] = Histogram(of_levels, n_missing)
                trained.bin_names[key] = ["", *levels, "unknown", "missing"]
            elif low is not None and high is not None:
                trained.histograms[key] = Histogram(np.array(counts, float), n_missing, low, high)
                trained.bin_names[key] = _intervals(column, low, high)
    return trained


def _intervals(column: Column, first: float, last: float) -> list[str]:
    ends = [shown_value(column, end) for end in np.linspace(first, last, N_BINS + 1)]
    texts = [f"{end:.4g}" if isinstance(end, float) else str(end) for end in ends]
    inside = [f"{low} to {high}" for low, high in pairwise(texts)]
    return [f"below {texts[0]}", *inside, f"above {texts[-1]}", "missing"]


def find_promises(
    report: Mapping[str, Any] | None, trained: TrainedColumns, *, is_rate: bool
) -> dict[str, Promise]:
    """Return the mean loss of each task on held-out rows; none without such rows."""
    metric = "error_rate" if is_rate else "rmse"
    scores = held_out_scores(report) or {"by_task": {}}
    by_task: Mapping[str, float | None] = scores["by_task"].get(metric, {})
    return {
        task: Promise(error if is_rate else error**2, trained.tasks[task])
        for task, error in by_task.items()
        if error is not None and task in trained.tasks and (is_rate or error > 0)
    }
