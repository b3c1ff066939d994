"""Several versions of models side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.api_examples import ApiExample
from service.ui.tables import Cell, Row, Table
from service.ui.views.lists import model_href
from service.ui.views.plots import Plot, plot_href
from service.ui.views.reports import mean
from sibling.plots import held_out_scores, metric_words

#: Number of versions that are compared.
MAX_MODELS: Final = 10
_MIN_MODELS: Final = 2
_MAX_TASKS: Final = 200


@dataclass(frozen=True, slots=True)
class _Compared:
    """A version with its scores on held-out rows and its plots, the titles by name."""

    model: Mapping[str, Any]
    path: str
    scores: Mapping[str, Any] | None
    plots: Mapping[str, str]

    @property
    def title(self) -> str:
        return f"{self.model['name']} / {self.model['version']}"

    @property
    def reference(self) -> str:
        return f"{self.model['name']}/{self.model['version']}"


@dataclass(frozen=True, slots=True)
class PlotRow:
    """The same plot of several versions: the title of each, and its address."""

    title: str
    images: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """Versions side by side.

    Parameters
    ----------
    chosen
        What was asked for, as in ``a/1,b/3``.
    known
        Names that can be chosen, too.
    sentence
        Which version is the best, or how to choose some.
    warning
        Why the scores cannot be compared; empty if they can.
    scores, params
        Scores, and parameters that differ; None without versions.
    tasks
        Scores on held-out rows by task; None without any.
    common
        Plots of all versions on common axes.
    plots
        Plots that at least two of the versions have.
    """

    chosen: str
    known: Sequence[str]
    sentence: str
    warning: str
    scores: Table | None
    tasks: Table | None
    params: Table | None
    common: Sequence[Plot]
    plots: Sequence[PlotRow]
    example: ApiExample


async def comparison_view(api: Api, chosen: str) -> ComparisonView:
    """Return the versions that are named as ``NAME/VERSION``, separated by commas."""
    names = dict.fromkeys(name.strip() for name in chosen.split(",") if name.strip())
    read = [await _read(api, *name.partition("/")[::2]) for name in list(names)[:MAX_MODELS]]
    found = list({one.reference: one for one in read}.values())  # an alias may be a number, too
    listed = (await api.get("/v1/models", page_size=200))["items"]
    common = await _common_plots(api, found)
    return ComparisonView(
        chosen=chosen,
        known=_others(listed, found),
        sentence=_sentence(found, common),
        warning=_warning(found),
        scores=_scores(found) if found else None,
        tasks=_tasks(found),
        params=_params(found) if len(found) >= _MIN_MODELS else None,
        common=common,
        plots=_plots(found),
        example=_example(found),
    )


def _others(listed: Sequence[Mapping[str, Any]], found: Sequence[_Compared]) -> list[str]:
    """Return the names of versions of the same data to compare, too; none if there is no room."""
    chosen = {one.reference for one in found}
    datasets = {one.model["lineage"]["dataset_id"] for one in found}
    names = [
        f"{model['name']}/{model['version']}"
        for model in listed
        if not datasets or model["lineage"]["dataset_id"] in datasets
    ]
    return [name for name in names if name not in chosen] if len(chosen) < MAX_MODELS else []


async def _read(api: Api, name: str, version: str) -> _Compared:
    path = f"/v1/models/{segment(name)}" + (f"/versions/{segment(version)}" if version else "")
    model = await api.get(path)
    path = f"/v1/models/{segment(model['name'])}/versions/{model['version']}"
    report = await api.find(f"{path}/report") or {}
    listed = (await api.find(f"{path}/plots") or {"items": []})["items"]
    plots = {plot["name"]: plot["title"] for plot in listed}
    return _Compared(model, path, held_out_scores(report), plots)


async def _common_plots(api: Api, found: Sequence[_Compared]) -> list[Plot]:
    if len(found) < _MIN_MODELS:
        return []
    query = urlencode([("model", one.reference) for one in found])
    listed = (await api.get("/v1/models:plots", model=[one.reference for one in found]))["items"]
    return [
        Plot(plot["title"], plot["sentence"], plot_href(f"/v1/models:plots/{plot['name']}", query))
        for plot in listed
    ]


def _sentence(found: Sequence[_Compared], common: Sequence[Plot]) -> str:
    """Return which version is the best in how many tasks, or what is missing for that."""
    if len(found) < _MIN_MODELS:
        return (
            "Which model is better? Choose at least two versions that learned from the same data."
        )
    if common and any(one.scores is not None for one in found):
        return common[0].sentence
    return (
        "Fewer than two of them were scored on held-out rows: train with 'evaluate' or 'compare'."
    )


def _example(found: Sequence[_Compared]) -> ApiExample:
    paths = [f"{one.path}/report" for one in found]
    if len(found) >= _MIN_MODELS:
        query = urlencode([("model", one.reference) for one in found])
        paths.append(f"/v1/models:plots?{query}")
    lines = [f"print(client.model({one.reference!r}).report())" for one in found]
    return ApiExample(paths or ["/v1/models"], "\n".join(lines))


def _warning(found: Sequence[_Compared]) -> str:
    """Return why scores of the versions cannot be compared."""
    if len({one.model["lineage"]["dataset_id"] for one in found}) > 1:
        return "The models were trained on different datasets, so their scores cannot be compared."
    keys = ("splits", "n_splits")
    splits = [
        (one.model["lineage"]["seed"], *(one.scores[key] for key in keys))
        for one in found
        if one.scores is not None
    ]
    if any(one != splits[0] for one in splits):
        return "Their held-out rows differ (other splits or seeds), so compare them with care."
    return ""


def _columns(first: str, found: Sequence[_Compared]) -> tuple[str, ...]:
    return (first, *(one.title for one in found))


def _scores(found: Sequence[_Compared]) -> Table:
    """Return the mean over tasks of each score; of held-out rows with intervals."""
    means: dict[str, dict[int, tuple[float | None, str]]] = {}
    for i, one in enumerate(found):
        for metric, value in _means(one).items():
            means.setdefault(metric, {})[i] = value
    links = [
        Cell(one.title, "number", model_href(one.model["name"], one.model["version"]))
        for one in found
    ]
    rows = [Row("models", [Cell("Model"), *links])]
    for metric, by_model in means.items():
        values, notes = zip(*(by_model.get(i, (None, "")) for i in range(len(found))), strict=True)
        rows.append(Row(f"score-{metric}", [tables.text(metric), *tables.numbers(values, notes)]))
    caption = "Scores, mean over tasks with 95 % intervals"
    return Table(caption, _columns("Score", found), rows)


def _means(one: _Compared) -> dict[str, tuple[float | None, str]]:
    """Return the scores of a version and their intervals, held-out rows first."""
    held_out = one.scores or {"mean": {}}
    means = {
        f"{metric_words(name)} (held out)": (
            value,
            formats.interval(held_out.get("interval", {}).get(name)),
        )
        for name, value in held_out["mean"].items()
    }
    return means | {
        f"{metric_words(name)} (training)": (mean(by_task), "")
        for name, by_task in one.model["metrics"].items()
    }


def _tasks(found: Sequence[_Compared]) -> Table | None:
    """Return the first score on held-out rows, by task."""
    scores = [one.scores for one in found]
    first = next((one for one in scores if one is not None), None)
    if first is None or not first["by_task"]:
        return None
    metric, by_task = next(iter(first["by_task"].items()))
    tasks = list(by_task)[:_MAX_TASKS]
    known = [(one or {"by_task": {}})["by_task"].get(metric, {}) for one in scores]
    columns = [tables.numbers([of_model.get(task) for task in tasks]) for of_model in known]
    rows = [
        Row(f"task-{task}", [tables.text(task), *(column[i] for column in columns)])
        for i, task in enumerate(tasks)
    ]
    caption = f"{metric_words(metric)} on held-out rows, by task"
    return Table(caption, _columns("Task", found), rows)


def _params(found: Sequence[_Compared]) -> Table:
    values: dict[str, list[Any]] = {"algorithm": [one.model["algorithm"] for one in found]}
    for i, one in enumerate(found):
        for name, value in one.model["lineage"]["params"].items():
            values.setdefault(name, [None] * len(found))[i] = value
    rows = [
        Row(f"param-{name}", [tables.text(name), *(tables.text(value) for value in own)])
        for name, own in values.items()
        if any(value != own[0] for value in own)
    ]
    columns = _columns("Parameter", found)
    return Table("Parameters that differ", columns, rows, "No parameter differs.")


def _plots(found: Sequence[_Compared]) -> list[PlotRow]:
    titles = {name: title for one in found for name, title in one.plots.items()}
    rows = {
        name: [
            (one.title, plot_href(f"{one.path}/plots/{name}")) for one in found if name in one.plots
        ]
        for name in titles
    }
    return [PlotRow(titles[name], images) for name, images in rows.items() if len(images) > 1]
