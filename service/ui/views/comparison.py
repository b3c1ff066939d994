"""Several versions of models side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.api_examples import ApiExample
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.lists import model_href
from service.ui.views.plots import PlotView, plot_href
from service.ui.views.reports import mean
from service.ui.views.words import GroupWords, capital
from sibling.plots import held_out_scores, metric_words

#: Number of versions that are compared.
MAX_MODELS: Final = 10
_MIN_MODELS: Final = 2
_MAX_TASKS: Final = 200


@dataclass(frozen=True, slots=True)
class _ComparedVersion:
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
        References of the versions, as requested: ``a/1,b/3``.
    known
        References of further versions to choose from.
    sentence
        Sentence on the best version, or on how to choose versions.
    warning
        Reason why the scores cannot be compared; empty if they can.
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
    common: Sequence[PlotView]
    plots: Sequence[PlotRow]
    example: ApiExample


async def comparison_view(api: Api, chosen: str) -> ComparisonView:
    """Return the versions that are named as ``NAME/VERSION``, separated by commas."""
    names = dict.fromkeys(name.strip() for name in chosen.split(",") if name.strip())
    resolved = [await _read(api, *name.partition("/")[::2]) for name in list(names)[:MAX_MODELS]]
    # an alias may be a number, too
    versions = list({version.reference: version for version in resolved}.values())
    models = (await api.get("/v1/models", page_size=200))["items"]
    common = await _common_plots(api, versions)
    return ComparisonView(
        chosen=chosen,
        known=_others(models, versions),
        sentence=_sentence(versions, common.get("scores")),
        warning=_warning(versions),
        scores=_scores(versions) if versions else None,
        tasks=_tasks(versions),
        params=_params(versions) if len(versions) >= _MIN_MODELS else None,
        common=list(common.values()),
        plots=_plots(versions),
        example=_example(versions),
    )


def _others(models: Sequence[Mapping[str, Any]], versions: Sequence[_ComparedVersion]) -> list[str]:
    """Return the names of versions of the same data to compare, too; none if there is no room."""
    chosen = {version.reference for version in versions}
    datasets = {version.model["lineage"]["dataset_id"] for version in versions}
    names = [
        f"{model['name']}/{model['version']}"
        for model in models
        if not datasets or model["lineage"]["dataset_id"] in datasets
    ]
    return [name for name in names if name not in chosen] if len(chosen) < MAX_MODELS else []


async def _read(api: Api, name: str, version: str) -> _ComparedVersion:
    path = f"/v1/models/{segment(name)}" + (f"/versions/{segment(version)}" if version else "")
    model = await api.get(path)
    path = f"/v1/models/{segment(model['name'])}/versions/{model['version']}"
    report = await api.find(f"{path}/report") or {}
    plot_infos = (await api.find(f"{path}/plots") or {"items": []})["items"]
    plots = {plot["name"]: plot["title"] for plot in plot_infos}
    return _ComparedVersion(model, path, held_out_scores(report), plots)


def _words(versions: Sequence[_ComparedVersion]) -> GroupWords:
    """Return the words for the groups; the common ones if versions have other columns."""
    columns = {version.model["task_column"] for version in versions}
    return GroupWords.of(columns.pop() if len(columns) == 1 else None)


async def _common_plots(api: Api, versions: Sequence[_ComparedVersion]) -> dict[str, PlotView]:
    if len(versions) < _MIN_MODELS:
        return {}
    query = urlencode([("model", version.reference) for version in versions])
    plots = (await api.get("/v1/models:plots", model=[v.reference for v in versions]))["items"]
    return {
        plot["name"]: PlotView.of(
            plot, plot_href(f"/v1/models:plots/{plot['name']}", query), _words(versions)
        )
        for plot in plots
    }


def _sentence(versions: Sequence[_ComparedVersion], scores: PlotView | None) -> str:
    """Return the sentence on the best version, or on missing versions or scores."""
    if len(versions) < _MIN_MODELS:
        return (
            "Which model is better? Choose at least two versions that learned from the same data."
        )
    if scores is not None:
        return scores.sentence
    if sum(version.scores is not None for version in versions) >= _MIN_MODELS:
        return "Their scores are of different kinds or groups, so they cannot be compared."
    return (
        "Fewer than two of them were scored on rows left out for checking: train with 'evaluate' "
        "or 'compare'."
    )


def _example(versions: Sequence[_ComparedVersion]) -> ApiExample:
    paths = [f"{version.path}/report" for version in versions]
    if len(versions) >= _MIN_MODELS:
        query = urlencode([("model", version.reference) for version in versions])
        paths.append(f"/v1/models:plots?{query}")
    lines = [f"print(client.model({version.reference!r}).report())" for version in versions]
    return ApiExample(paths or ["/v1/models"], "\n".join(lines))


def _warning(versions: Sequence[_ComparedVersion]) -> str:
    """Return the reason why scores of the versions cannot be compared; empty if they can."""
    if len({version.model["lineage"]["dataset_id"] for version in versions}) > 1:
        return "The models were trained on different datasets, so their scores cannot be compared."
    keys = ("splits", "n_splits")
    splits = [
        (version.model["lineage"]["seed"], *(version.scores[key] for key in keys))
        for version in versions
        if version.scores is not None
    ]
    if any(options != splits[0] for options in splits):
        return (
            "Their rows left out for checking differ (other splits or seeds), so compare them with "
            "care."
        )
    return ""


def _columns(first: str, versions: Sequence[_ComparedVersion]) -> tuple[str, ...]:
    return (first, *(version.title for version in versions))


def _scores(versions: Sequence[_ComparedVersion]) -> Table:
    """Return the mean of each score over tasks, with intervals for held-out rows."""
    means: dict[str, dict[int, tuple[float | None, str]]] = {}
    for i, version in enumerate(versions):
        for metric, value in _means(version).items():
            means.setdefault(metric, {})[i] = value
    links = [
        Cell(version.title, "number", model_href(version.model["name"], version.model["version"]))
        for version in versions
    ]
    rows = [TableRow("models", [Cell("Model"), *links])]
    for metric, by_model in means.items():
        values, notes = zip(
            *(by_model.get(i, (None, "")) for i in range(len(versions))), strict=True
        )
        rows.append(
            TableRow(f"score-{metric}", [tables.text(metric), *tables.numbers(values, notes)])
        )
    caption = f"Scores, mean over {_words(versions).many} with 95 % intervals"
    return Table(caption, _columns("Score", versions), rows)


def _means(version: _ComparedVersion) -> dict[str, tuple[float | None, str]]:
    """Return the scores of a version and their intervals, held-out rows first."""
    held_out = version.scores or {"mean": {}}
    means = {
        f"{metric_words(name, held_out.get('unit'))} (rows left out for checking)": (
            value,
            formats.interval(held_out.get("interval", {}).get(name)),
        )
        for name, value in held_out["mean"].items()
    }
    return means | {
        f"{metric_words(name)} (training)": (mean(by_task), "")
        for name, by_task in version.model["metrics"].items()
    }


def _tasks(versions: Sequence[_ComparedVersion]) -> Table | None:
    """Return the first score on held-out rows, by task."""
    scores = [version.scores for version in versions]
    first = next((held_out for held_out in scores if held_out is not None), None)
    if first is None or not first["by_task"]:
        return None
    metric, first_values = next(iter(first["by_task"].items()))
    tasks = list(first_values)[:_MAX_TASKS]
    values = [(held_out or {"by_task": {}})["by_task"].get(metric, {}) for held_out in scores]
    columns = [tables.numbers([by_task.get(task) for task in tasks]) for by_task in values]
    rows = [
        TableRow(f"task-{task}", [tables.text(task), *(column[i] for column in columns)])
        for i, task in enumerate(tasks)
    ]
    words = _words(versions)
    metric = metric_words(metric, first.get("unit"))
    caption = f"{metric} on rows left out for checking, by {words.one}"
    return Table(caption, _columns(capital(words.one), versions), rows)


def _params(versions: Sequence[_ComparedVersion]) -> Table:
    values: dict[str, list[Any]] = {
        "algorithm": [version.model["algorithm"] for version in versions]
    }
    for i, version in enumerate(versions):
        for name, value in version.model["lineage"]["params"].items():
            values.setdefault(name, [None] * len(versions))[i] = value
    rows = [
        TableRow(f"param-{name}", [tables.text(name), *(tables.text(value) for value in row)])
        for name, row in values.items()
        if any(value != row[0] for value in row)
    ]
    columns = _columns("Parameter", versions)
    return Table("Parameters that differ", columns, rows, "No parameter differs.")


def _plots(versions: Sequence[_ComparedVersion]) -> list[PlotRow]:
    titles = {name: title for version in versions for name, title in version.plots.items()}
    rows = {
        name: [
            (version.title, plot_href(f"{version.path}/plots/{name}"))
            for version in versions
            if name in version.plots
        ]
        for name in titles
    }
    return [PlotRow(titles[name], images) for name, images in rows.items() if len(images) > 1]
