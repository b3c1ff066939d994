"""Rows in the learned space, one panel for each task."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sibling.plots.source import Content, Plot, Row, Source, finite, kept, spread
from sibling.plots.style import MAX_CLASSES, class_scales

_MAX_TASKS: Final = 12
_MAX_POINTS: Final = 300
_COLUMNS: Final = 2
#: A coordinate is shown as 0 if it varies less than this, relative to the other one.
_MIN_SPREAD: Final = 1e-9


def describe(source: Source) -> Content | None:
    """Return the first two coordinates of the points that the model has stored."""
    if source.model is None:
        return None
    stored = {task: source.model.embedding(task) for task in source.model.tasks}
    embeddings = {task: embedding for task, embedding in stored.items() if embedding is not None}
    if not embeddings:
        return None
    tasks = [list(embeddings)[i] for i in spread(len(embeddings), _MAX_TASKS)]
    rows: list[Row] = []
    for task in tasks:
        embedding = embeddings[task]
        coordinates = _without_noise(embedding.coordinates[:, :2])
        for i in spread(len(coordinates), _MAX_POINTS):
            point = coordinates[i]
            row = {"task": task, "first": finite(point[0])}
            row["second"] = finite(point[1]) if len(point) > 1 else 0.0
            rows.append(
                row | ({"class": str(embedding.classes[i])} if len(embedding.classes) else {})
            )
    n_points = sum(len(embeddings[task].coordinates) for task in tasks)
    labels = sorted({str(label) for task in tasks for label in embeddings[task].classes})
    points = embeddings[tasks[0]].points
    k = max(embedding.coordinates.shape[1] for embedding in embeddings.values())
    notes = kept(len(tasks), len(embeddings), "tasks") + kept(len(rows), n_points, "points")
    notes += kept(2, k, "coordinates", "the first")
    if len(labels) > MAX_CLASSES:
        notes += (f"The {len(labels):,} classes are not distinguished; point at a row to see it.",)
    separate = "Classes that lie apart are easy to tell apart." if labels else ""
    sentence = f"Points are {points} in the learned space of each task. {separate}".strip()
    options = {"tasks": tasks, "classes": labels, "is_flat": k == 1}
    return Content({"points": rows}, sentence, notes, options)


def draw(content: Content) -> Any:
    """Return a panel for each task; axes differ, as each task has a space of its own."""
    import altair as alt

    options = content.options
    free = alt.Scale(zero=False)
    y = alt.Y("second:Q", title="Coordinate 2", scale=free)
    if options["is_flat"]:
        y = alt.Y("second:Q", axis=None)
    points = (
        alt.Chart(alt.NamedData("points"))
        .mark_point(filled=True, size=45, opacity=0.75)
        .encode(x=alt.X("first:Q", title="Coordinate 1", scale=free), y=y)
    )
    tooltip = ["task:N", "first:Q", "second:Q"]
    if options["classes"]:
        tooltip.append("class:N")
    if 0 < len(options["classes"]) <= MAX_CLASSES:
        color, shape = class_scales(options["classes"])
        points = points.encode(
            color=alt.Color("class:N", scale=alt.Scale(**color), title="Class"),
            shape=alt.Shape("class:N", scale=alt.Scale(**shape), title="Class"),
        )
    facet = alt.Facet("task:N", title=None, sort=options["tasks"])
    points = points.encode(tooltip=tooltip).properties(width=200, height=200)
    return points.facet(facet=facet, columns=_COLUMNS).resolve_scale(
        x="independent", y="independent"
    )


def _without_noise(coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return coordinates, with 0 for a coordinate that only has rounding errors."""
    spreads = np.ptp(coordinates, axis=0)
    return np.where(spreads < _MIN_SPREAD * spreads.max(), 0.0, coordinates)


PLOT: Final = Plot("scatter", "Rows in the learned space", describe, draw)
