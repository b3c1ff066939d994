"""Predictions of rows with known targets: against the truth, residuals, confusion and ROC."""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sibling.plots.source import Content, HeldOut, Plot, Row, Source, counted, kept, spread
from sibling.plots.style import COLOURS, NEUTRAL

_MAX_POINTS: Final = 2000
_MAX_CLASSES: Final = 40
_MAX_TASKS: Final = len(COLOURS)
#: Pixels of a letter, and of a plot on a phone.
_LETTER: Final = 7
_PHONE: Final = 220
#: Number of points of a ROC curve.
_MAX_STEPS: Final = 200
#: Standard deviation of residuals, relative to their mean, that can be rounding errors.
_EQUAL_RTOL: Final = 1e-9


def _unit(source: Source) -> str | None:
    """Return the name of the target that the rows of a report have; None if it is not known."""
    sections = (source.part(name) for name in ("evaluation", "comparison", "choice"))
    return next((section["unit"] for section in sections if section and section.get("unit")), None)


def describe_predictions(source: Source) -> Content | None:
    """Return predicted and true numbers."""
    rows = _numbers(source)
    if rows is None:
        return None
    table, notes = _points(rows)
    unit = _unit(source)
    error = float(np.sqrt(np.mean((rows.predicted - rows.true) ** 2)))
    ends = [float(np.min([rows.true, rows.predicted])), float(np.max([rows.true, rows.predicted]))]
    diagonal = [{"true": end, "predicted": end} for end in ends]
    sentence = (
        f"Points on the line are predicted exactly; the root mean squared error of "
        f"{counted(len(rows.true), rows.what)} is {error:.4g}"
        f"{f' in units of {unit}' if unit else ''}."
    )
    return Content(
        {"points": table, "diagonal": diagonal},
        sentence,
        notes,
        {"unit": unit},
    )


def describe_residuals(source: Source) -> Content | None:
    """Return true minus predicted numbers."""
    rows = _numbers(source)
    if rows is None:
        return None
    table, notes = _points(rows)
    residuals = rows.true - rows.predicted
    mean, size = float(np.mean(residuals)), float(np.std(residuals))
    if size <= _EQUAL_RTOL * abs(mean):
        size = abs(mean)
    decimals = 2 - math.floor(math.log10(size or 1.0))  # no more mean anything
    mean = round(mean, decimals) + 0.0
    of = "" if rows.what == "row" else f" of {counted(len(rows.true), rows.what)}"
    sentence = (
        f"The mean residual{of} is {mean:.{max(decimals, 0)}f}. "
        "A trend or a funnel shows what the model misses."
    )
    return Content({"points": table}, sentence, notes, {"unit": _unit(source)})


def describe_confusion(source: Source) -> Content | None:
    """Return the number of rows by true and predicted class."""
    rows = source.rows
    if rows is None or (not rows.scores and rows.true.dtype.kind == "f"):
        return None
    true, predicted = rows.true.astype(str), rows.predicted.astype(str)
    labels, counts = np.unique(np.concatenate([true, predicted]), return_counts=True)
    n_shown = min(len(labels), _MAX_CLASSES)
    shown = sorted(labels[np.argsort(-counts, kind="stable")[:n_shown]].tolist())
    pairs, numbers = np.unique(np.stack([true, predicted]), axis=1, return_counts=True)
    count = {(a, b): int(n) for (a, b), n in zip(pairs.T.tolist(), numbers.tolist(), strict=True)}
    total = {a: int(np.sum(true == a)) for a in shown}
    cells = [
        {
            "true": a,
            "predicted": b,
            "rows": count.get((a, b), 0),
            "share": count.get((a, b), 0) / total[a] if total[a] else 0.0,
        }
        for a in shown
        for b in shown
    ]
    right = int(np.sum(true == predicted))
    n_rows = f"{counted(len(true), rows.what)} {'is' if len(true) == 1 else 'are'}"
    sentence = f"{right:,} of {n_rows} on the diagonal, predicted rightly."
    notes = kept(n_shown, len(labels), "classes", "the most frequent") + rows.sampled()
    return Content({"cells": cells}, sentence, notes, {"classes": shown})


def describe_roc(source: Source) -> Content | None:
    """Return the ROC curve of each task with two classes."""
    rows = source.rows
    curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    for task, (scores, classes) in ({} if rows is None else rows.scores).items():
        if len(classes) == 2 and scores.ndim == 1 and rows is not None:
            is_second = rows.true[rows.task == task].astype(str) == str(classes[1])
            if is_second.any() and not is_second.all():
                curves[task] = roc_curve(is_second, scores)
    if not curves or rows is None:
        return None
    area_of = {task: float(np.trapezoid(true, false)) for task, (false, true) in curves.items()}
    ranked = sorted(curves, key=area_of.__getitem__)
    shown = {ranked[i] for i in spread(len(ranked), _MAX_TASKS)}
    tasks = [task for task in curves if task in shown]
    table: list[Row] = []
    for task in tasks:
        false, true = curves[task]
        table += [
            {"task": task, "order": i, "false": float(false[i]), "true": float(true[i])}
            for i in spread(len(false), _MAX_STEPS)
        ]
    areas = [f"{task} {area_of[task]:.3f}" for task in tasks]
    sentence = f"Area under the curve, 0.5 by chance and 1 at best: {', '.join(areas)}."
    notes = kept(len(tasks), len(curves), "tasks", "evenly spaced from the smallest to the largest")
    without = len(set(rows.task.tolist())) - len(curves)
    if without > 0:
        none = f"{counted(without, 'task')} {'has' if without == 1 else 'have'} no curve"
        notes += (f"{none}, which needs two classes, rows of both and their scores.",)
    notes += rows.sampled()
    chance: list[Row] = [{"false": end, "true": end} for end in (0.0, 1.0)]
    return Content(
        {"curves": table, "chance": chance},
        sentence,
        notes,
        {"tasks": tasks},
    )


def roc_curve(
    is_second: NDArray[np.bool_], scores: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the false and true positive rates at every threshold, from none to all."""
    order = np.argsort(-scores, kind="stable")
    is_last = np.append(np.diff(scores[order]) != 0, True)  # rows with equal scores count at once
    true = np.append(0.0, np.cumsum(is_second[order])[is_last])
    false = np.append(0.0, np.cumsum(~is_second[order])[is_last])
    return false / false[-1], true / true[-1]


def draw_predictions(content: Content) -> Any:
    """Return predicted against true numbers, with the diagonal."""
    import altair as alt

    free = alt.Scale(zero=False)
    line = alt.Chart(alt.NamedData("diagonal")).mark_line(color=NEUTRAL)
    points = _marks(content).encode(
        y=alt.Y("predicted:Q", title=f"Predicted{_of(content)}", scale=free)
    )
    return alt.layer(
        _dashed(
            line.encode(x=alt.X("true:Q", scale=free), y=alt.Y("predicted:Q", scale=free)),
            "predicted exactly",
        ),
        points,
    ).properties(width=360, height=360)


def draw_residuals(content: Content) -> Any:
    """Return residuals against predictions, with a line at 0."""
    import altair as alt

    free = alt.Scale(zero=False)
    rule = alt.Chart().mark_rule(color=NEUTRAL).encode(y=alt.datum(0))
    zero = _dashed(rule, "predicted exactly")
    points = _marks(content).encode(
        x=alt.X("predicted:Q", title=f"Predicted{_of(content)}", scale=free),
        y=alt.Y("residual:Q", title=f"Residual{_of(content)}: true minus predicted"),
    )
    layers = alt.layer(zero, points, data=alt.NamedData("points"))
    return layers.properties(width=480, height=300)


def draw_confusion(content: Content) -> Any:
    """Return a heat map of the shares of each true class, with the counts."""
    import altair as alt

    classes: list[str] = content.options["classes"]
    side = len(classes) * max(min(420 // len(classes), 140), 14)
    is_short = _LETTER * max(map(len, classes)) <= _PHONE // len(classes)
    axis = alt.Axis(labelAngle=0 if is_short else -90)
    base = alt.Chart(alt.NamedData("cells")).encode(
        x=alt.X("predicted:N", sort=classes, title="Predicted class", axis=axis),
        y=alt.Y("true:N", sort=classes, title="True class"),
        tooltip=["true:N", "predicted:N", "rows:Q", alt.Tooltip("share:Q", format=".1%")],
    )
    scale = alt.Scale(domain=[0, 1], scheme="blues")
    layers = [
        base.mark_rect().encode(color=alt.Color("share:Q", scale=scale, title="Share of class"))
    ]
    if len(classes) <= 15:  # otherwise numbers would not fit into the cells
        ink = (
            alt.when("datum.share > 0.7").then(alt.value("#ffffff")).otherwise(alt.value("#1f2328"))
        )
        layers.append(base.mark_text().encode(text="rows:Q", color=ink))
    return alt.layer(*layers).properties(width=side, height=side)


def draw_roc(content: Content) -> Any:
    """Return a curve for each task, with the line of chance."""
    import altair as alt

    tasks = content.options["tasks"]
    x = alt.X("false:Q", title="False positive rate")
    y = alt.Y("true:Q", title="True positive rate")
    chance = alt.Chart(alt.NamedData("chance")).encode(x=x, y=y)
    curves = alt.Chart(alt.NamedData("curves")).encode(
        x=x,
        y=y,
        color=alt.Color("task:N", sort=tasks),
        order="order:Q",
        tooltip=["task:N", "false:Q", "true:Q"],
    )
    line = _dashed(chance.mark_line(color=NEUTRAL), "chance")
    return alt.layer(line, curves.mark_line()).properties(width=360, height=360)


def _of(content: Content) -> str:
    """Return the name of the target as the end of the title of an axis."""
    unit = content.options["unit"]
    return f" {unit}" if unit else ""


def _dashed(line: Any, meaning: str) -> Any:
    """Return a line with dashes, and its entry in the legend."""
    import altair as alt

    scale = alt.Scale(domain=[meaning], range=[[4, 4]])
    dash = alt.StrokeDash("line:N", scale=scale, title="Dashed line")
    return line.transform_calculate(line=f"'{meaning}'").encode(strokeDash=dash)


def _numbers(source: Source) -> HeldOut | None:
    """Return the rows if their targets are numbers."""
    rows = source.rows
    is_numeric = rows is not None and not rows.scores and rows.true.dtype.kind == "f"
    return rows if is_numeric and rows is not None and len(rows.true) else None


def _points(rows: HeldOut) -> tuple[list[Row], tuple[str, ...]]:
    chosen = spread(len(rows.true), _MAX_POINTS)
    table = [
        {
            "task": str(rows.task[i]),
            "true": float(rows.true[i]),
            "predicted": float(rows.predicted[i]),
            "residual": float(rows.true[i] - rows.predicted[i]),
        }
        for i in chosen
    ]
    return table, kept(len(chosen), len(rows.true), "rows") + rows.sampled()


def _marks(content: Content) -> Any:
    """Return the points; coloured by task if there are few."""
    import altair as alt

    tasks = list(dict.fromkeys(row["task"] for row in content.tables["points"]))
    points = alt.Chart(alt.NamedData("points")).encode(
        x=alt.X("true:Q", title=f"True{_of(content)}", scale=alt.Scale(zero=False)),
        tooltip=["task:N", "true:Q", "predicted:Q"],
    )
    if 1 < len(tasks) <= len(COLOURS):
        color = alt.Color("task:N", sort=tasks)
        return points.mark_point(filled=True, size=30, opacity=0.6).encode(color=color)
    return points.mark_point(filled=True, size=30, opacity=0.6, color=COLOURS[0])


PREDICTIONS: Final = Plot(
    "predictions",
    "Predicted against true",
    describe_predictions,
    draw_predictions,
    target="numbers",
    needs="targets that are numbers",
)
RESIDUALS: Final = Plot(
    "residuals",
    "Residuals",
    describe_residuals,
    draw_residuals,
    target="numbers",
    needs="targets that are numbers",
)
CONFUSION: Final = Plot(
    "confusion",
    "Confusion matrix",
    describe_confusion,
    draw_confusion,
    target="classes",
    needs="targets that are classes",
)
ROC: Final = Plot(
    "roc",
    "ROC curve",
    describe_roc,
    draw_roc,
    target="classes",
    needs="a task with two classes, and rows of both of them",
)
