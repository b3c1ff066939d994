"""Importance of the columns of a model, for each task and for all of them."""

from typing import Any, Final

from sibling.plots.source import Content, Plot, Row, Source, counted, finite, kept, spread
from sibling.plots.style import COLOURS, NEUTRAL

#: Maximum numbers of columns, and of tasks with marks.
_MAX_COLUMNS: Final = 25
_MAX_TASKS: Final = 60

_METRICS: Final = {"r2": "R²", "auc": "area under the ROC curve", "accuracy": "accuracy"}


def describe(source: Source) -> Content | None:
    """Return the importance of the columns, as a mean and for each task; None if all are 0."""
    importance = source.importance
    if importance is None or not any(value and value > 0 for value in importance["shared"]):
        return None
    columns = importance["columns"][:_MAX_COLUMNS]
    names = list(importance["tasks"])
    tasks = [names[i] for i in spread(len(names), _MAX_TASKS)]
    shared: list[Row] = [
        {"column": column, "importance": finite(value)}
        for column, value in zip(columns, importance["shared"], strict=False)
    ]
    by_task: list[Row] = [
        {"column": column, "task": task, "importance": finite(value)}
        for task in tasks
        for column, value in zip(columns, importance["tasks"][task], strict=False)
    ]
    rows = sum(importance["n_rows"].values())
    if importance["kind"] == "coefficients":
        is_number = source.model is not None and not source.model.classes(names[0])
        unit = ", relative to that of the target" if is_number else ""
        title = f"Standard deviation of what a column adds to the prediction{unit}"
        how = f"Coefficients of the standardised columns, by {counted(rows, 'training row')}."
    else:
        title = f"Fall of {_METRICS[importance['metric']]} if the column is permuted"
        repeats = counted(importance["n_repeats"], "permutation")
        how = f"Mean of {repeats} of each column in {counted(rows, 'training row')}."
    if importance["metric"] == "r2":
        how += " A fall above 1 means: then worse than the mean as every prediction."
    notes = (
        f"{how} Bars are means over the tasks, marks single tasks.",
        *kept(len(columns), importance["n_columns"], "columns", "the most important ones"),
        *kept(len(tasks), len(names), "tasks"),
    )
    tables = {"shared": shared, "tasks": by_task if len(names) > 1 else []}
    return Content(tables, importance["sentence"], notes, {"title": title, "columns": columns})


def draw(content: Content) -> Any:
    """Return a bar for each column, with a mark for each task."""
    import altair as alt

    y = alt.Y("column:N", sort=content.options["columns"], title=None)
    x = alt.X("importance:Q", title=content.options["title"])
    number = alt.Tooltip("importance:Q", format=".4g")
    bars = (
        alt.Chart(alt.NamedData("shared"))
        .mark_bar(color=COLOURS[0], opacity=0.6)
        .encode(x=x, y=y, tooltip=["column:N", number])
    )
    marks = (
        alt.Chart(alt.NamedData("tasks"))
        .mark_tick(color=NEUTRAL, thickness=2)
        .encode(x=x, y=y, tooltip=["column:N", "task:N", number])
    )
    return alt.layer(bars, marks).properties(width=480)


PLOT: Final = Plot("importance", "Importance of the columns", describe, draw)
