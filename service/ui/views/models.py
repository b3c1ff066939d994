"""Models: the versions of one, and one version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.tables import Cell, Row, Table
from service.ui.views.choices import leaderboard
from service.ui.views.lists import MODEL_COLUMNS, model_href, model_rows
from service.ui.views.snippets import example_of, snippets_of

_VERDICTS: Final = {
    "helps": "Learning the tasks together helps.",
    "hurts": "Learning the tasks together hurts.",
    "equal": "Learning the tasks together makes no relevant difference.",
    "unclear": "Whether learning the tasks together helps is unclear.",
}
_MAX_TASKS: Final = 200


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of a model, as an image."""

    title: str
    sentence: str
    href: str


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model with its versions."""

    name: str
    sentence: str
    versions: Table
    aliases: Table
    next_href: str | None


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version of a model.

    Parameters
    ----------
    verdict
        Whether learning together helps; empty without a comparison.
    scores
        Scores of each task.
    methods
        Compared methods; None without a comparison.
    gains
        Gain of the best multi-task method by task; None without a comparison.
    candidates
        Candidates of a search, the best first; None without one.
    vega
        Address of the script that makes plots interactive.
    """

    model: Mapping[str, Any]
    path: str
    example: str
    snippets: Sequence[tuple[str, str]]
    sentence: str
    verdict: str
    sentences: Sequence[str]
    scores: Table
    methods: Table | None
    gains: Table | None
    candidates: Table | None
    plots: Sequence[Plot]
    vega: str
    params: Sequence[tuple[str, Cell]]
    lineage: Sequence[tuple[str, Cell]]


async def model_view(api: Api, name: str, token: str | None) -> ModelView:
    """Return the view of a model."""
    path = f"/v1/models/{segment(name)}"
    found = await api.get(f"{path}/versions", page_token=token)
    aliases = (await api.get(f"{path}/aliases", page_size=200))["items"]
    following = found["next_page_token"]
    return ModelView(
        name=name,
        sentence=f"{formats.count(len(found['items']), 'version')} on this page, newest first.",
        versions=Table(f"Versions of {name}", MODEL_COLUMNS, model_rows(found["items"])),
        aliases=Table(
            "Aliases",
            ("Alias", "Version", "Moved"),
            [Row(f"alias-{alias['alias']}", _alias_cells(name, alias)) for alias in aliases],
            "No alias points to a version yet.",
        ),
        next_href=None if following is None else f"{model_href(name)}?page_token={following}",
    )


def _alias_cells(name: str, alias: Mapping[str, Any]) -> list[Cell]:
    version = alias["version"]
    return [
        tables.text(alias["alias"], note=f"{name}@{alias['alias']}"),
        Cell(formats.number(version), "number", model_href(name, version)),
        tables.time(alias["moved_at"]),
    ]


async def version_view(api: Api, name: str, version: int, *, vega: str) -> VersionView:
    """Return the view of a version.

    Parameters
    ----------
    vega
        Address of the script that makes plots interactive.
    """
    path = f"/v1/models/{segment(name)}/versions/{version}"
    model = await api.get(path)
    report = await api.find(f"{path}/report") or {}
    history = await api.get(f"{path}/history")
    comparison, search = report.get("comparison"), report.get("search")
    choice = report.get("choice")
    example = await example_of(api, model)
    return VersionView(
        model=model,
        path=path,
        example=example.csv(),
        snippets=snippets_of(model, example, str(api.request.base_url).rstrip("/")),
        sentence=_sentence(model, history),
        verdict=_verdict(comparison, choice),
        sentences=(choice or comparison or {"sentences": ()})["sentences"],
        scores=_scores(model, report.get("evaluation")),
        methods=_compared(comparison, choice),
        gains=None if comparison is None else _gains(comparison),
        candidates=None if search is None else _candidates(search),
        plots=await _plots(api, path),
        vega=vega,
        params=[(key, tables.text(value)) for key, value in model["lineage"]["params"].items()],
        lineage=_lineage(model, history),
    )


def _verdict(comparison: Mapping[str, Any] | None, choice: Mapping[str, Any] | None) -> str:
    found = comparison if choice is None else choice["together_or_apart"]
    if found is None:
        return "" if choice is None else "The algorithm was chosen automatically."
    return _VERDICTS.get(found["verdict"], "")


def _compared(
    comparison: Mapping[str, Any] | None, choice: Mapping[str, Any] | None
) -> Table | None:
    if choice is not None:
        return leaderboard(choice)
    return None if comparison is None else _methods(comparison)


def _sentence(model: Mapping[str, Any], history: Mapping[str, Any]) -> str:
    tasks = formats.count(len(model["tasks"]), "task")
    reason = {
        "converged": "; it converged",
        "stalled": "; it stopped because the objective no longer improved",
        "max_iter": "; it stopped at the maximum number of iterations",
    }.get(model["stop_reason"] or "", "")
    fit = formats.duration(history["fit_s"])
    return f"{model['algorithm']} learned {tasks} in {fit}{reason}."


def _scores(model: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> Table:
    """Return the scores of each task: on training rows, and on held-out rows if there are."""
    metrics = {f"{name} (training)": by_task for name, by_task in model["metrics"].items()}
    if evaluation is not None:
        metrics |= {f"{name} (held out)": found for name, found in evaluation["by_task"].items()}
    rows = [
        Row(
            f"score-{task}",
            [tables.text(task), *(tables.number(found.get(task)) for found in metrics.values())],
        )
        for task in model["tasks"][:_MAX_TASKS]
    ]
    more = len(model["tasks"]) > _MAX_TASKS
    title = f"Scores by task, the first {_MAX_TASKS}" if more else "Scores by task"
    return Table(title, ("Task", *(name.replace("_", " ") for name in metrics)), rows)


def _methods(comparison: Mapping[str, Any]) -> Table:
    # of the algorithm itself, without the one that the next column has
    own = comparison["methods"][0]["mean"]
    shown = comparison["metric"] if comparison["average"] == "tasks" else None
    metrics = [name for name in own if own[name] is not None and name != shown]
    rows = [
        Row(
            f"method-{i}",
            [
                tables.text(
                    f"{method['algorithm']} {method['variant']}".strip(),
                    note=method["role"].replace("_", " "),
                ),
                tables.number(method["value"]),
                *(tables.number(method["mean"].get(metric)) for metric in metrics),
            ],
        )
        for i, method in enumerate(comparison["methods"])
    ]
    better = "larger" if comparison["larger_is_better"] else "smaller"
    title = f"Methods on the same held-out rows ({better} {comparison['title']} is better)"
    means = (f"mean {metric.replace('_', ' ')}" for metric in metrics)
    return Table(title, ("Method", comparison["title"], *means), rows)


def _gains(comparison: Mapping[str, Any]) -> Table:
    rows = [
        Row(
            f"gain-{task}",
            [
                tables.text(task),
                tables.text(found["verdict"]),
                tables.number(found["gain"]),
                tables.quantity(_interval(found)),
                tables.text(found["sentence"]),
            ],
        )
        for task, found in comparison["tasks"].items()
    ]
    columns = ("Task", "Verdict", "Gain", "95 % interval", "In words")
    return Table("Gain of learning together, by task", columns, rows)


def _interval(found: Mapping[str, Any]) -> str:
    if found["low"] is None or found["high"] is None:
        return formats.NONE
    return f"{formats.number(found['low'], 3)} to {formats.number(found['high'], 3)}"


def _candidates(search: Mapping[str, Any]) -> Table:
    sign = -1 if search["larger_is_better"] else 1
    found = list(enumerate(search["candidates"]))

    def rank(item: tuple[int, Mapping[str, Any]]) -> tuple[bool, float]:
        value = item[1]["mean"].get(search["metric"])
        return value is None, sign * (value or 0.0)

    rows = [
        Row(
            f"candidate-{i}",
            [
                tables.text(candidate["params"], note="chosen" if i == search["best"] else ""),
                tables.number(candidate["mean"].get(search["metric"])),
                tables.number(candidate["n_splits"]),
                tables.text(candidate["failed"]),
            ],
        )
        for i, candidate in sorted(found, key=rank)[:_MAX_TASKS]
    ]
    columns = ("Parameters", f"Mean {search['metric']}", "Splits", "Failed")
    return Table(f"Candidates of the {search['method']} search, the best first", columns, rows)


async def _plots(api: Api, path: str) -> list[Plot]:
    found = await api.find(f"{path}/plots")
    if found is None:
        return []
    return [
        Plot(plot["title"], plot["sentence"], f"{path}/plots/{plot['name']}")
        for plot in found["plots"]
    ]


def _lineage(model: Mapping[str, Any], history: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    lineage = model["lineage"]
    return [
        (
            "Algorithm",
            tables.text(model["algorithm"], f"/algorithms/{segment(model['algorithm'])}"),
        ),
        ("Dataset", tables.code(lineage["dataset_id"], f"/datasets/{lineage['dataset_id']}")),
        ("Job", tables.code(lineage["job_id"], f"/jobs/{lineage['job_id']}")),
        ("Seed", tables.text(str(lineage["seed"]))),
        ("Trained", tables.time(model["created_at"])),
        ("Peak memory", tables.text(f"{formats.number(round(history['peak_memory_mb']))} MiB")),
        ("Artifact", tables.text(formats.size(model["artifact_bytes"]))),
        ("Artifact's SHA-256", tables.code(model["artifact_sha256"])),
        ("Software", tables.text(lineage["software"])),
    ]
