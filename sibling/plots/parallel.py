"""Results of a search in parallel coordinates: a line for each candidate through its values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sibling.plots.search import MIN_LOG_RATIO, is_number, text_of, varied
from sibling.plots.source import Content, Plot, Row, Source, finite, kept, metric_words, spread
from sibling.plots.style import COLOURS, NEUTRAL

_MAX_CANDIDATES: Final = 200
_MAX_PARAMS: Final = 5
_MIN_PARAMS: Final = 2
#: Maximum number of values that an axis names; of numbers only the ends.
_MAX_LABELS: Final = 8


def describe(source: Source) -> Content | None:
    """Return the candidates of a search by at least two parameters, and by their scores."""
    search = source.part("search")
    if search is None:
        return None
    metric, best = search["metric"], search["best"]
    scored = {
        i: score
        for i, candidate in enumerate(search["candidates"])
        if (score := finite(candidate["mean"].get(metric))) is not None
    }
    names = varied(search["candidates"])
    if len(names) < _MIN_PARAMS or best not in scored:
        return None
    order = [i for i in scored if i != best]
    # the best one is drawn last, above the others
    chosen = [order[i] for i in spread(len(order), _MAX_CANDIDATES - 1)] + [best]
    params = [search["candidates"][i]["params"] for i in chosen]
    title = metric_words(metric)
    axes = {name: [settings.get(name) for settings in params] for name in names[:_MAX_PARAMS]}
    lines, labels = _drawn({**axes, title: [scored[i] for i in chosen]})
    tables: dict[str, Sequence[Row]] = {
        "best": [row for row in lines if row["candidate"] == len(chosen) - 1],
        "others": [row for row in lines if row["candidate"] != len(chosen) - 1],
        "labels": labels,
    }
    better = "top" if search["larger_is_better"] else "bottom"
    sentence = (
        f"A line is a candidate: its parameters, and its {title} on held-out rows, which is best "
        f"at the {better}. The best one is orange."
    )
    notes = kept(len(chosen), len(scored), "candidates")
    notes += kept(len(axes), len(names), "parameters", "the first")
    return Content(tables, sentence, notes, {"axes": [*axes, title]})


def draw(content: Content) -> Any:
    """Return a line for each candidate, and the values at the axes."""
    import altair as alt

    axis = alt.Axis(labelAngle=0, orient="top", domain=False, ticks=False, grid=True)
    x = alt.X("axis:N", sort=content.options["axes"], title=None, axis=axis, scale=_SCALE)
    y = alt.Y("position:Q", axis=None)
    tooltip = ["params:N"]

    def lines(table: str, **style: Any) -> Any:
        chart = alt.Chart(alt.NamedData(table)).mark_line(point={"size": 30}, **style)
        return chart.encode(x=x, y=y, detail="candidate:N", tooltip=tooltip)

    texts = (
        alt.Chart(alt.NamedData("labels"))
        .mark_text(align="left", dx=7, fontSize=11, color=NEUTRAL)
        .encode(x=x, y=y, text="label:N")
    )
    others = lines("others", color=COLOURS[0], opacity=0.4)
    best = lines("best", color=COLOURS[1], strokeWidth=3)
    return alt.layer(others, best, texts).properties(width=480, height=240)


_SCALE: Final = {"type": "point", "padding": 0.3}


def _drawn(axes: Mapping[str, Sequence[Any]]) -> tuple[list[Row], list[Row]]:
    """Return the points of the lines, and the labels of the axes."""
    lines: list[Row] = []
    labels: list[Row] = []
    n_candidates = len(next(iter(axes.values())))
    settings = [
        ", ".join(f"{name} = {text_of(values[i])}" for name, values in axes.items())
        for i in range(n_candidates)
    ]
    for name, values in axes.items():
        positions = _positions(values)
        lines += [
            {"candidate": i, "axis": name, "position": position, "params": settings[i]}
            for i, position in enumerate(positions)
        ]
        at = {position: text_of(v) for position, v in zip(positions, values, strict=True)}
        shown = sorted(at) if len(at) <= _MAX_LABELS else [min(at), max(at)]
        labels += [{"axis": name, "position": place, "label": at[place]} for place in shown]
    return lines, labels


def _positions(values: Sequence[Any]) -> list[float]:
    """Return places from 0 to 1: of numbers by their size, of other values by their order."""
    if not all(map(is_number, values)):
        labels = sorted({text_of(value) for value in values})
        return [labels.index(text_of(value)) / max(len(labels) - 1, 1) for value in values]
    low, high = min(values), max(values)
    if low > 0 and high / low > MIN_LOG_RATIO:
        return _positions([math.log(value) for value in values])
    return [(value - low) / ((high - low) or 1.0) for value in values]


PLOT: Final = Plot("parallel", "Search in parallel coordinates", describe, draw)
