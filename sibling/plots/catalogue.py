"""All plots, and their Vega-Lite specifications."""

import re
from collections.abc import Callable
from functools import partial
from textwrap import wrap
from typing import Any, Final

from algorithms.interface.errors import explain_unknown
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from sibling.charts import Theme, load_altair
from sibling.plots import (
    angles,
    gains,
    importance,
    learning_curve,
    objective,
    parallel,
    predictions,
    relations,
    reliability,
    scatter,
    scores,
    search,
    spectrum,
)
from sibling.plots.source import Content, Plot, Source
from sibling.plots.style import config

#: Maximum length of a line below the title.
_MAX_LETTERS: Final = 66
#: Pixels of a letter below the title.
_LETTER: Final = 5
#: Pixels of a letter of the title of an axis.
_TITLE_LETTER: Final = 6
#: Maximum length of a name at an axis, on phones and elsewhere.
_MAX_NAME: Final = (18, 32)

PLOTS: Final[dict[str, Plot]] = {
    plot.name: plot
    for plot in (
        gains.PLOT,
        scores.PLOT,
        learning_curve.PLOT,
        relations.PLOT,
        importance.PLOT,
        predictions.PREDICTIONS,
        predictions.RESIDUALS,
        predictions.CONFUSION,
        predictions.ROC,
        reliability.PLOT,
        scatter.PLOT,
        spectrum.PLOT,
        angles.PLOT,
        objective.PLOT,
        search.PLOT,
        parallel.PLOT,
    )
}


class UnknownPlot(LookupError):
    """Raised for a name that no plot has."""


class NoPlot(LookupError):
    """Raised if the source of a plot lacks the data to show."""


def find_plot(name: str) -> Plot:
    """Return a plot by name.

    Raises
    ------
    UnknownPlot
        There is none.
    """
    if name not in PLOTS:
        raise UnknownPlot(explain_unknown(name, PLOTS, what="plot"))
    return PLOTS[name]


def available(source: Source) -> dict[str, Content]:
    """Return the contents of the plots of a source, by plot name."""
    described = {name: plot.describe(source) for name, plot in PLOTS.items()}
    return {name: content for name, content in described.items() if content is not None}


def specification(
    name: str,
    source: Source,
    *,
    theme: Theme = "light",
    has_title: bool = True,
    width: int | None = None,
) -> dict[str, Any]:
    """Return a plot as a Vega-Lite specification.

    Parameters
    ----------
    has_title
        Whether the title and the sentence are drawn above the plot.
    width
        Largest width of each panel in pixels, as on a phone; None: as the plot is best.

    Raises
    ------
    UnknownPlot
        There is no plot of this name.
    NoPlot
        The source lacks the data to show.
    MissingPackage
        altair is not installed.
    """
    plot = find_plot(name)
    content = plot.describe(source)
    if content is None:
        raise NoPlot(_reason(plot, source))
    return assemble(
        plot.title,
        content,
        plot.draw,
        group=source.group,
        theme=theme,
        has_title=has_title,
        width=width,
    )


def assemble(
    title: str,
    content: Content,
    draw: Callable[[Content], Any],
    *,
    group: str = DEFAULT_TASK_COLUMN,
    theme: Theme = "light",
    has_title: bool = True,
    width: int | None = None,
) -> dict[str, Any]:
    """Return the specification of a chart with its title, its sentence, its notes, and its data.

    Parameters
    ----------
    draw
        Returns the chart without its title.
    group
        Name of the column of tasks, which axes, legends and tooltips have.
    theme, has_title, width
        As in :func:`specification`.
    """
    alt = load_altair()
    texts = (content.sentence, *content.notes) if has_title else ()
    letters = _MAX_LETTERS if width is None else min(_MAX_LETTERS, width // _LETTER)
    lines = [line for text in texts for line in wrap(text, max(letters, 1))]
    chart = draw(content)
    if has_title:
        chart = chart.properties(title=alt.TitleParams(title, subtitle=lines))
    drawn: dict[str, Any] = _walked(chart.to_dict(), partial(_named, group=group))
    drawn = _walked(drawn, partial(_shortened, longest=_MAX_NAME[width is None]))
    drawn["config"] = config(theme)
    if width is not None:
        drawn = {
            **_walked(drawn, partial(_narrowed, width=width)),
            "config": config(theme, is_narrow=True),
        }
    drawn["description"] = " ".join([content.sentence, *content.notes])
    # the data come last, as altair would check every row against the schema, for seconds
    drawn["datasets"] = {table: list(rows) for table, rows in content.tables.items()}
    return drawn


def _walked(part: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a part of a specification in which each object is changed, the innermost first."""
    if isinstance(part, list):
        return [_walked(one, change) for one in part]
    if not isinstance(part, dict):
        return part
    return change({key: _walked(value, change) for key, value in part.items()})


def _named(part: dict[str, Any], group: str) -> dict[str, Any]:
    """Return an object whose title has the name of the column of tasks."""
    title = part.get("title")
    if isinstance(title, str):
        return part | {"title": re.sub(r"\btask\b", lambda _: group, title)}
    is_unnamed = part.get("field") == "task" and "title" not in part
    return part | {"title": group.capitalize()} if is_unnamed else part


def _shortened(part: dict[str, Any], longest: int) -> dict[str, Any]:
    """Return an object whose axes leave out the middle of long names, which often end differently.

    Parameters
    ----------
    longest
        Number of letters that are left; an even one.
    """
    half = longest // 2
    short = f"slice(datum.label, 0, {half - 1}) + '…' + slice(datum.label, -{half})"
    label = {"labelExpr": f"length(datum.label) > {longest} ? {short} : datum.label"}
    axes = {channel: part[channel] for channel in ("x", "y") if isinstance(part.get(channel), dict)}
    return part | {
        channel: {**axis, "axis": {**label, **axis.get("axis", {})}}
        for channel, axis in axes.items()
        if axis.get("type") == "nominal" and axis.get("axis", {}) is not None
    }


def _narrowed(part: dict[str, Any], width: int) -> dict[str, Any]:
    """Return an object with panels below each other, each up to a width."""
    own = part.get("width")
    if isinstance(own, int | float) and own > width:
        is_square = part.get("height") == own
        part |= {"width": width, **({"height": width} if is_square else {})}
    title, n_letters = part.get("title"), max(1, width // _TITLE_LETTER)
    if isinstance(title, str) and len(title) > n_letters:  # of an axis or a legend
        part |= {"title": wrap(title, n_letters)}
    return part | ({"columns": 1} if "columns" in part else {})


def _reason(plot: Plot, source: Source) -> str:
    """Return why a source does not have a plot."""
    there = ", ".join(available(source)) or "none"
    if plot.target is None:
        return f"there is no plot '{plot.name}' of this model; its plots: {there}"
    if source.rows is None:
        return (
            f"the plot '{plot.name}' needs rows and their targets, which estimators take: "
            f"estimator.plot('{plot.name}', X, y), with tasks= if there are several; a model of "
            "the service has it if its job has 'evaluate' or 'compare', for held-out rows; "
            f"here: {there}"
        )
    return f"the plot '{plot.name}' needs {plot.needs}; the plots of these rows and model: {there}"
