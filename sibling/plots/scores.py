"""Scores of each task on held-out rows."""

import json
from typing import Any, Final

from sibling.plots.source import (
    MAX_METRICS,
    MAX_NAMES,
    Content,
    Plot,
    Row,
    Source,
    counted,
    finite,
    kept,
    metric_words,
    spread,
)
from sibling.plots.style import COLOURS


def describe(source: Source) -> Content | None:
    """Return the scores of an evaluation, by metric and task."""
    evaluation = source.part("evaluation")
    if evaluation is None or not evaluation["by_task"]:
        return None
    metrics = list(evaluation["by_task"])[:MAX_METRICS]
    tasks = list(evaluation["by_task"][metrics[0]])
    chosen = [tasks[i] for i in spread(len(tasks), MAX_NAMES)]
    rows: list[Row] = [
        {
            "metric": metric,
            "task": task,
            "score": finite(evaluation["by_task"][metric].get(task)),
        }
        for metric in metrics
        for task in chosen
    ]
    unit = evaluation.get("unit")
    means = [
        f"{metric_words(metric, unit)} {evaluation['mean'][metric]:.3g}"
        for metric in metrics
        if finite(evaluation["mean"].get(metric)) is not None
    ]
    splits = counted(evaluation["n_splits"], "split")
    sentence = f"Mean over tasks, on held-out rows of {splits}: {', '.join(means)}."
    notes = kept(len(metrics), len(evaluation["by_task"]), "metrics", "the first")
    notes += kept(len(chosen), len(tasks), "tasks")
    return Content(
        {"scores": rows},
        sentence,
        notes,
        {"tasks": chosen, "metrics": metrics, "unit": unit},
    )


def draw(content: Content) -> Any:
    """Return a panel of points for each metric."""
    import altair as alt

    points = (
        alt.Chart(alt.NamedData("scores"))
        .mark_point(filled=True, size=70, color=COLOURS[0])
        .encode(
            x=alt.X("score:Q", title="Score", scale=alt.Scale(zero=False)),
            y=alt.Y("task:N", sort=content.options["tasks"], title=None),
            tooltip=["metric:N", "task:N", alt.Tooltip("score:Q", format=".4g")],
        )
        .properties(width=220)
    )
    metrics = content.options["metrics"]
    titles = json.dumps(
        {metric: metric_words(metric, content.options["unit"]) for metric in metrics}
    )
    words = alt.Header(labelExpr=f"{titles}[datum.label]")
    facet = alt.Facet("metric:N", title=None, header=words, sort=metrics)
    return points.facet(facet=facet, columns=2).resolve_scale(x="independent")


PLOT: Final = Plot("scores", "Scores on held-out rows", describe, draw)
