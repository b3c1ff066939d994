"""Weights of shared features, or variance along the components of each task."""

from typing import Any, Final

import numpy as np

from sibling.plots.source import Content, Plot, Source, counted, kept, spread
from sibling.plots.style import COLOURS

#: Maximum number of features or components, and of tasks.
_MAX_COMPONENTS: Final = 60
_MAX_TASKS: Final = 100

#: Quantities of :meth:`Model.learned` that are spectra, with the titles of their axis.
_SPECTRA: Final = {
    "feature_weights": "Weight of the feature (all sum to 1)",
    "explained_variance_ratio": "Share of the variance of the task",
}


def describe(source: Source) -> Content | None:
    """Return the first spectrum that the model has learned."""
    learned = source.learned()
    name = next((name for name in _SPECTRA if name in learned), None)
    if name is None or source.model is None:
        return None
    spectrum = np.atleast_2d(np.asarray(learned[name], dtype=np.float64))
    tasks = source.model.tasks if len(spectrum) > 1 else ("all tasks",)
    n_shown = min(spectrum.shape[1], _MAX_COMPONENTS)
    chosen = spread(len(tasks), _MAX_TASKS)
    rows = [
        {"task": tasks[t], "component": i + 1, "share": float(spectrum[t, i])}
        for t in chosen
        for i in range(n_shown)
    ]
    return Content(
        {"spectrum": rows},
        _sentence(spectrum, name),
        kept(n_shown, spectrum.shape[1], "components", "the first")
        + kept(len(chosen), len(tasks), "tasks"),
        {"title": _SPECTRA[name]},
    )


def draw(content: Content) -> Any:
    """Return bars for a spectrum of all tasks, a line for each task otherwise."""
    import altair as alt

    tasks = list(dict.fromkeys(row["task"] for row in content.tables["spectrum"]))
    base = alt.Chart(alt.NamedData("spectrum")).encode(
        y=alt.Y("share:Q", title=content.options["title"]),
        tooltip=["task:N", "component:O", alt.Tooltip("share:Q", format=".4g")],
    )
    x = alt.X("component:O", title="Component, in decreasing order", axis=alt.Axis(labelAngle=0))
    if len(tasks) == 1:
        return base.mark_bar(color=COLOURS[0]).encode(x=x).properties(width=480, height=260)
    lines = base.mark_line(point=True, opacity=0.8).encode(x=x)
    if len(tasks) > len(COLOURS):  # more lines than colours: which task it is, is in the tooltip
        lines = lines.encode(detail="task:N", color=alt.value(COLOURS[0]), opacity=alt.value(0.4))
    else:
        lines = lines.encode(color=alt.Color("task:N", sort=tasks))
    return lines.properties(width=480, height=260)


def _sentence(spectrum: Any, name: str) -> str:
    if name == "feature_weights":
        count = int(np.searchsorted(np.cumsum(spectrum[0]), 0.9)) + 1
        has = "has" if count == 1 else "have"
        return (
            f"{count} of {counted(spectrum.shape[1], 'feature')} {has} 90 % of the weight of all."
        )
    held = 100 * spectrum.sum(axis=1)
    k = spectrum.shape[1]
    span = f"{held.min():.0f} %" if np.ptp(held) < 1 else f"{held.min():.0f} to {held.max():.0f} %"
    components = f"{k} components" if k > 1 else "The component"
    return f"{components} of each task {'retain' if k > 1 else 'retains'} {span} of its variance."


PLOT: Final = Plot("spectrum", "Spectrum", describe, draw)
