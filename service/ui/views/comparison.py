"""Several versions of models side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.tables import Cell, Row, Table
from service.ui.views.lists import model_href

#: Number of versions that are compared.
MAX_MODELS: Final = 10
_MAX_TASKS: Final = 200


@dataclass(frozen=True, slots=True)
class _Compared:
    """A version with its report and its plots, the titles by name."""

    model: Mapping[str, Any]
    path: str
    evaluation: Mapping[str, Any] | None
    plots: Mapping[str, str]

    @property
    def title(self) -> str:
        return f"{self.model['name']} / {self.model['version']}"


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
    warning
        Why the scores cannot be compared; empty if they can.
    tasks
        Scores on held-out rows by task; None without an evaluation.
    params
        Parameters that differ, and all others of only some of the versions.
    plots
        Plots that at least two of the versions have.
    """

    chosen: str
    warning: str
    scores: Table
    tasks: Table | None
    params: Table
    plots: Sequence[PlotRow]


async def comparison_view(api: Api, chosen: str) -> ComparisonView:
    """Return the versions that are named as ``NAME/VERSION``, separated by commas."""
    names = [name.strip() for name in chosen.split(",") if name.strip()][:MAX_MODELS]
    found = [await _read(api, *name.partition("/")[::2]) for name in names]
    return ComparisonView(
        chosen=chosen,
        warning=_warning(found),
        scores=_scores(found),
        tasks=_tasks(found),
        params=_params(found),
        plots=_plots(found),
    )


async def _read(api: Api, name: str, version: str) -> _Compared:
    path = f"/v1/models/{segment(name)}" + (f"/versions/{segment(version)}" if version else "")
    model = await api.get(path)
    path = f"/v1/models/{segment(model['name'])}/versions/{model['version']}"
    report = await api.find(f"{path}/report") or {}
    listed = (await api.find(f"{path}/plots") or {"plots": []})["plots"]
    plots = {plot["name"]: plot["title"] for plot in listed}
    return _Compared(model, path, report.get("evaluation"), plots)


def _warning(found: Sequence[_Compared]) -> str:
    """Return why scores of the versions cannot be compared."""
    if len({one.model["lineage"]["dataset_id"] for one in found}) > 1:
        return "The models were trained on different datasets, so their scores cannot be compared."
    keys = ("splits", "n_splits")
    splits = [
        (one.model["lineage"]["seed"], *(one.evaluation[key] for key in keys))
        for one in found
        if one.evaluation is not None
    ]
    if any(one != splits[0] for one in splits):
        return "Their held-out rows differ (other splits or seeds), so compare them with care."
    return ""


def _columns(first: str, found: Sequence[_Compared]) -> tuple[str, ...]:
    return (first, *(one.title for one in found))


def _scores(found: Sequence[_Compared]) -> Table:
    """Return the mean over tasks of each score; of held-out rows with intervals."""
    cells: dict[str, list[Cell]] = {}
    for i, one in enumerate(found):
        for metric, cell in _means(one).items():
            cells.setdefault(metric, [tables.number(None)] * len(found))[i] = cell
    links = [
        Cell(one.title, "number", model_href(one.model["name"], one.model["version"]))
        for one in found
    ]
    rows = [Row("models", [Cell("Model"), *links])] if found else []
    rows += [Row(f"score-{name}", [tables.text(name), *own]) for name, own in cells.items()]
    caption = "Scores, mean over tasks with 95 % intervals"
    return Table(caption, _columns("Score", found), rows, "Name some models.")


def _means(one: _Compared) -> dict[str, Cell]:
    """Return the scores of a version, held-out rows first."""
    held_out = one.evaluation or {"mean": {}}
    means = {
        f"{name.replace('_', ' ')} (held out)": tables.number(
            value, _interval(held_out.get("interval", {}).get(name))
        )
        for name, value in held_out["mean"].items()
    }
    return means | {
        f"{name.replace('_', ' ')} (training)": tables.number(_mean(by_task))
        for name, by_task in one.model["metrics"].items()
    }


def _interval(found: Mapping[str, float | None] | None) -> str:
    if found is None or found["low"] is None or found["high"] is None:
        return ""
    return f"{formats.number(found['low'], 3)} to {formats.number(found['high'], 3)}"


def _tasks(found: Sequence[_Compared]) -> Table | None:
    """Return the first score on held-out rows, by task."""
    evaluations = [one.evaluation for one in found]
    first = next((one for one in evaluations if one is not None), None)
    if first is None or not first["by_task"]:
        return None
    metric, by_task = next(iter(first["by_task"].items()))
    rows = [
        Row(
            f"task-{task}",
            [
                tables.text(task),
                *(
                    tables.number((one or {"by_task": {}})["by_task"].get(metric, {}).get(task))
                    for one in evaluations
                ),
            ],
        )
        for task in list(by_task)[:_MAX_TASKS]
    ]
    caption = f"{metric.replace('_', ' ')} on held-out rows, by task"
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
        name: [(one.title, f"{one.path}/plots/{name}") for one in found if name in one.plots]
        for name in titles
    }
    return [PlotRow(titles[name], images) for name, images in rows.items() if len(images) > 1]


def _mean(by_task: Mapping[str, float | None]) -> float | None:
    known: Sequence[float] = [value for value in by_task.values() if value is not None]
    return sum(known) / len(known) if known else None
