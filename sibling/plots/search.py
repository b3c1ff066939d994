"""Results of a search: the score of each candidate against each parameter."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from algorithms.evaluation.scores.metrics import AVERAGES
from sibling.plots.source import Content, Plot, Row, Source, finite, kept, metric_words, spread
from sibling.plots.style import COLOURS

_MAX_CANDIDATES: Final = 500
_MAX_PARAMS: Final = 6
#: Positive values that span more than this ratio get a log scale.
MIN_LOG_RATIO: Final = 50


def describe(source: Source) -> Content | None:
    """Return the candidates of a search by the parameters that differ between them."""
    search = source.part("search")
    if search is None or not search["candidates"]:
        return None
    metric, candidates = search["metric"], search["candidates"]
    different = varied(candidates)
    names = different[:_MAX_PARAMS]
    if not names:
        return None
    best = search["best"]
    # the best one is drawn last, above the others
    chosen = [i for i in spread(len(candidates), _MAX_CANDIDATES - 1) if i != best] + [best]
    tables = {
        f"parameter {position}": [
            _row(candidates[i], name, metric, is_best=i == best) for i in chosen
        ]
        for position, name in enumerate(names)
    }
    value = finite(candidates[best]["mean"].get(metric))
    told = "without a value" if value is None else f"{value:.4g}"
    better = "larger" if search["larger_is_better"] else "smaller"
    settings = ", ".join(
        f"{name} = {text_of(candidates[best]['params'].get(name))}" for name in names
    )
    words = f"{metric_words(metric, search.get('unit'))} ({AVERAGES['tasks']})"
    score = f"{words} {told}"
    sentence = f"The best of {len(candidates)} candidates has {settings}, with {score}."
    notes = kept(len(chosen), len(candidates), "candidates")
    notes += kept(len(names), len(different), "parameters", "the first")
    title = [f"{words} on held-out rows", f"({better} is better)"]
    return Content(tables, sentence, notes, {"names": names, "title": title})


def draw(content: Content) -> Any:
    """Return a panel for each parameter."""
    import altair as alt

    panels = []
    for position, name in enumerate(content.options["names"]):
        table = f"parameter {position}"
        kinds = ["best", "other"]
        colours = alt.Scale(domain=kinds, range=[COLOURS[3], COLOURS[0]])
        shapes = alt.Scale(domain=kinds, range=["diamond", "circle"])
        x, shown = alt.X("value:N", title=name, sort=None), "value:N"
        numbers = [row["value"] for row in content.tables[table]]
        if all(isinstance(number, float) for number in numbers):
            is_log = min(numbers) > 0 and max(numbers) / min(numbers) > MIN_LOG_RATIO
            scale = alt.Scale(type="log") if is_log else alt.Scale(zero=False)
            title = f"{name}, log scale" if is_log else name
            x, shown = alt.X("value:Q", title=title, scale=scale), "value:Q"
        panels.append(
            alt.Chart(alt.NamedData(table))
            .mark_point(filled=True, size=80, opacity=0.85)
            .encode(
                x=x,
                y=alt.Y("score:Q", title=content.options["title"], scale=alt.Scale(zero=False)),
                color=alt.Color("kind:N", scale=colours, title="Candidate"),
                shape=alt.Shape("kind:N", scale=shapes, title="Candidate"),
                tooltip=[shown, "score:Q", "params:N"],
            )
            .properties(width=260, height=200)
        )
    return alt.concat(*panels, columns=2)


def varied(candidates: Any) -> list[str]:
    """Return the parameters with more than one value, in the order of their names."""
    values: dict[str, set[str]] = {}
    for candidate in candidates:
        for name, value in candidate["params"].items():
            values.setdefault(name, set()).add(json.dumps(value))
    return sorted(name for name, distinct in values.items() if len(distinct) > 1)


def _row(candidate: Mapping[str, Any], name: str, metric: str, *, is_best: bool) -> Row:
    value = candidate["params"].get(name)
    settings = ", ".join(
        f"{key} = {text_of(setting)}" for key, setting in candidate["params"].items()
    )
    return {
        "value": float(value) if is_number(value) else text_of(value),
        "score": finite(candidate["mean"].get(metric)),
        "kind": "best" if is_best else "other",
        "params": settings,
    }


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value of a parameter is a number, and not a flag."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of(value: Any) -> str:
    """Return a value of a parameter as text."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


PLOT: Final = Plot("search", "Search for parameters", describe, draw)
