"""Plots of several models on common axes, as Vega-Lite specifications."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.errors import explain_unknown
from sibling.plots.catalogue import NoPlot, UnknownPlot, assemble
from sibling.plots.objective import last_loop
from sibling.plots.source import (
    MAX_METRICS,
    MAX_NAMES,
    Content,
    Row,
    Source,
    counted,
    finite,
    kept,
    metric_words,
    spread,
)
from sibling.plots.style import NEUTRAL, class_scales

#: Sources by the titles of their models.
Sources = Mapping[str, Source]


@dataclass(frozen=True, slots=True)
class ComparedPlot:
    """A kind of plot of several models.

    Parameters
    ----------
    describe
        Returns the content; None if fewer than two models have the data to show.
    draw
        Returns the chart of altair for a content.
    """

    name: str
    title: str
    describe: Callable[[Sources], Content | None]
    draw: Callable[[Content], Any]


def compared(sources: Sources) -> dict[str, Content]:
    """Return the contents of the plots of several models, by plot name."""
    described = {name: plot.describe(sources) for name, plot in COMPARED.items()}
    return {name: content for name, content in described.items() if content is not None}


def compared_specification(name: str, sources: Sources, **options: Any) -> dict[str, Any]:
    """Return a plot of several models as a Vega-Lite specification.

    Parameters
    ----------
    options
        Those of :func:`~sibling.plots.catalogue.specification`.

    Raises
    ------
    UnknownPlot
        There is no plot of this name.
    NoPlot
        Fewer than two models have the data to show.
    MissingPackage
        altair is not installed.
    """
    if name not in COMPARED:
        raise UnknownPlot(explain_unknown(name, COMPARED, what="plot of several models"))
    plot = COMPARED[name]
    content = plot.describe(sources)
    if content is None:
        there = ", ".join(compared(sources)) or "none"
        raise NoPlot(f"fewer than two of these models have the plot '{name}'; their plots: {there}")
    return assemble(plot.title, content, plot.draw, **options)


def held_out_scores(report: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return means and scores by task on held-out rows; None without any.

    They are of an evaluation, a comparison, an automatic choice, or the race of a fit.
    """
    report = report or {}
    comparison, choice, race = (report.get(name) for name in ("comparison", "choice", "race"))
    if report.get("evaluation") is not None:
        evaluation: Mapping[str, Any] = report["evaluation"]
        return evaluation
    if comparison is not None:
        candidate, metric = comparison["methods"][0], comparison["metric"]
        mean = {name: value for name, value in candidate["mean"].items() if value is not None}
        return _scores(comparison, mean, {}, {metric: candidate["by_task"]})
    if choice is not None:
        estimate, metric = choice["estimate"], choice["metric"]
        by_task = estimate.get("by_task", {})
        return _scores(choice, {metric: estimate["value"]}, {metric: estimate}, by_task)
    if race is not None:
        expected, metric = race["expected"], race["expected"]["metric"]
        by_task = {metric: expected["by_task"]}
        return _scores(race, {metric: expected["value"]}, {metric: expected}, by_task)
    return None


def _scores(
    section: Mapping[str, Any],
    mean: Mapping[str, Any],
    interval: Mapping[str, Any],
    by_task: Mapping[str, Mapping[str, float | None]],
) -> dict[str, Any]:
    """Return scores of a section of a report as an evaluation has them."""
    keys = ("splits", "n_splits", "unit")
    return {
        **{key: section.get(key) for key in keys},
        "mean": mean,
        "interval": interval,
        "by_task": by_task,
    }


def _describe_scores(sources: Sources) -> Content | None:
    """Return the scores of the tasks that at least two models have in common."""
    by_model = {title: held_out_scores(source.report) for title, source in sources.items()}
    scored = {
        title: scores["by_task"]
        for title, scores in by_model.items()
        if scores and scores["by_task"]
    }
    metrics = _common(scored.values())[:MAX_METRICS]
    if len(scored) < 2 or not metrics:
        return None
    tasks = _common([by_task[metrics[0]] for by_task in scored.values()])
    chosen = [tasks[i] for i in spread(len(tasks), MAX_NAMES)]
    rows: list[Row] = [
        {
            "model": title,
            "metric": metric,
            "task": task,
            "score": finite(by_task[metric].get(task)),
        }
        for title, by_task in scored.items()
        for metric in metrics
        for task in chosen
    ]
    if not any(row["score"] is not None for row in rows):
        return None
    unit = next((scores.get("unit") for scores in by_model.values() if scores), None)
    options = {"models": list(scored), "tasks": chosen, "metrics": metrics, "unit": unit}
    sentence = _wins({title: by_task[metrics[0]] for title, by_task in scored.items()}, metrics[0])
    return Content({"scores": rows}, sentence, kept(len(chosen), len(tasks), "tasks"), options)


def _common(name_lists: Any) -> list[str]:
    """Return the names that all have, in the order of the first."""
    first, *others = [list(names) for names in name_lists] or [[]]
    return [name for name in first if all(name in other for other in others)]


def _wins(scores: Mapping[str, Mapping[str, float | None]], metric: str) -> str:
    """Return in how many tasks each model is the best, in words."""
    sign = 1 if metric in METRICS and METRICS[metric].larger_is_better else -1
    wins = dict.fromkeys(scores, 0)
    n_tasks = 0
    for task in _common(scores.values()):
        values = {title: finite(by_task[task]) for title, by_task in scores.items()}
        if any(value is None for value in values.values()):
            continue
        n_tasks += 1
        best = max(sign * value for value in values.values() if value is not None)
        winners = [
            title for title, value in values.items() if value is not None and sign * value == best
        ]
        if len(winners) == 1:
            wins[winners[0]] += 1
    shown = METRICS[metric].title if metric in METRICS else metric
    parts = ", ".join(f"{title} in {n}" for title, n in wins.items())
    return f"{shown} on held-out rows, best of {counted(n_tasks, 'task')}: {parts}."


def _draw_scores(content: Content) -> Any:
    """Return a panel for each metric: a point for each model, with a line through each task."""
    import altair as alt

    options = content.options
    color, shape = class_scales(options["models"])
    y = alt.Y("task:N", sort=options["tasks"], title=None)
    panels = []
    for metric in options["metrics"]:
        title = f"{metric_words(metric, options['unit'])} on held-out rows"
        base = alt.Chart(alt.NamedData("scores")).transform_filter(f"datum.metric === '{metric}'")
        spans = base.mark_rule(color=NEUTRAL, opacity=0.5).encode(
            x=alt.X("min(score):Q", title=title, scale=alt.Scale(zero=False)),
            x2="max(score):Q",
            y=y,
        )
        points = base.mark_point(filled=True, size=60, opacity=0.85).encode(
            x="score:Q",
            y=y,
            color=alt.Color("model:N", scale=alt.Scale(**color), title="Model"),
            shape=alt.Shape("model:N", scale=alt.Scale(**shape), title="Model"),
            tooltip=["model:N", "task:N", alt.Tooltip("score:Q", format=".4g")],
        )
        panels.append((spans + points).properties(width=320))
    return alt.concat(*panels, columns=2)


def _describe_objective(sources: Sources) -> Content | None:
    """Return the last loops of models of one algorithm: others minimise another objective."""
    loops = {title: last_loop(source) for title, source in sources.items()}
    by_algorithm: dict[str, list[str]] = {}
    for title, rows in loops.items():
        model = sources[title].model
        if rows and model is not None:
            by_algorithm.setdefault(model.algorithm, []).append(title)
    algorithm = max(by_algorithm, key=lambda name: len(by_algorithm[name]), default="")
    titles = by_algorithm.get(algorithm, [])
    if len(titles) < 2:
        return None
    rows = [{"model": title, **row} for title in titles for row in loops[title]]
    ends = ", ".join(f"{title} {loops[title][-1]['objective']:.4g}" for title in titles)
    sentence = f"The objective of {algorithm} at the end of the last loop: {ends}."
    note = "Objectives are comparable if the data and the parameters in the objective are the same."
    return Content({"steps": rows}, sentence, (note,), {"models": titles})


def _draw_objective(content: Content) -> Any:
    """Return the objectives over the iterations, a line for each model."""
    import altair as alt

    models: Sequence[str] = content.options["models"]
    color, shape = class_scales(models)
    return (
        alt.Chart(alt.NamedData("steps"))
        .mark_line(point={"size": 24})
        .encode(
            x=alt.X("iteration:Q", title="Iteration", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("objective:Q", title="Objective", scale=alt.Scale(zero=False)),
            color=alt.Color("model:N", scale=alt.Scale(**color), title="Model"),
            shape=alt.Shape("model:N", scale=alt.Scale(**shape), title="Model"),
            tooltip=["model:N", "iteration:Q", "objective:Q"],
        )
        .properties(width=480, height=240)
    )


COMPARED: Final[dict[str, ComparedPlot]] = {
    plot.name: plot
    for plot in (
        ComparedPlot("scores", "Scores by task", _describe_scores, _draw_scores),
        ComparedPlot("objective", "Objectives", _describe_objective, _draw_objective),
    )
}
