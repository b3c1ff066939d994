"""One version of a model: the answer of its report, and what stands behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.http.requests import base_of
from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.api_examples import ApiExample
from service.ui.tables import Cell, Table
from service.ui.views import answer, reports
from service.ui.views.answer import Subject
from service.ui.views.bars import Chart
from service.ui.views.choices import leaderboards
from service.ui.views.importance import what_matters
from service.ui.views.lists import FORBIDDEN, dataset_cell
from service.ui.views.models import watch_href
from service.ui.views.notes import notes_of
from service.ui.views.plots import PlotView, plot_href
from service.ui.views.snippets import example_of, snippets_of
from service.ui.views.words import GroupWords, capital, name_of

#: Plots that the page has as charts of its own.
_CHARTS: Final = ("gains", "importance")
#: Objectives of the fits of a race are on scales of their own.
_OF_RACE: Final = ("objective",)
_STOPPED: Final = {
    "converged": "it converged",
    "stalled": "it stopped because the objective no longer improved",
    "max_iter": "it stopped at the maximum number of iterations",
}
#: What stands in for missing values.
_IMPUTED: Final = {"median": "the median", "mean": "the mean", "most_frequent": "the commonest"}


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version of a model.

    Parameters
    ----------
    dataset, rows
        Data that it was trained on.
    headline, lead
        The answer of its report: whether learning together helps, or how good it is.
    warnings, facts
        What needs an act, and what is good to know.
    kinds, gains, importance
        Charts; None where they are not known.
    tiles
        Numbers, each with what it means.
    sentences
        All findings of a comparison or an automatic choice in words.
    measures
        What the numbers of the answer are, in the terms of statistics.
    leaderboards
        The best compared method of each kind, and all; empty without a comparison.
    tables
        Means of scores, scores and gains of each group, recall of each class, candidates.
    charts
        Addresses of the plots that stand for charts, by name.
    vega
        Address of the script that makes plots interactive.
    request
        Requests for the model and its report, if it has one.
    """

    model: Mapping[str, Any]
    path: str
    watch_href: str
    words: GroupWords
    example: str
    snippets: Sequence[tuple[str, str]]
    dataset: Cell
    rows: str
    headline: str
    lead: str
    warnings: Sequence[str]
    facts: Sequence[str]
    kinds: Chart | None
    gains: Chart | None
    importance: Chart | None
    tiles: Sequence[tuple[str, str]]
    sentences: Sequence[str]
    measures: Sequence[str]
    leaderboards: Sequence[Table]
    tables: Sequence[Table]
    plots: Sequence[PlotView]
    charts: Mapping[str, PlotView]
    vega: str
    request: ApiExample
    params: Sequence[tuple[str, Cell]]
    lineage: Sequence[tuple[str, Cell]]


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
    importance = await api.find(f"{path}/importance")
    dataset_path = f"/v1/datasets/{model['lineage']['dataset_id']}"
    dataset = await api.find(dataset_path, refused=FORBIDDEN)
    example = await example_of(api, model)
    study, evaluation = answer.study_of(report), report.get("evaluation")
    words = GroupWords.of(model["task_column"])
    subject = Subject(len(model["tasks"]), words, answer.target_of(dataset))
    plots = {plot["name"]: plot for plot in await _plots(api, path)}
    hidden = (*_CHARTS, *(_OF_RACE if report.get("choice") else ()))
    warnings, facts = _notes(model, report, words)
    cell = dataset_cell(model["lineage"]["dataset_id"], dataset)
    return VersionView(
        model=model,
        path=path,
        watch_href=watch_href(name, model["aliases"], version),
        words=words,
        example=example.csv(),
        snippets=snippets_of(model, example, base_of(api.request)),
        dataset=cell,
        rows=_rows(dataset, words),
        headline=_learned(model, words) if study is None else answer.headline(study, subject),
        lead=words.said(reports.held_out_sentence(evaluation))
        if study is None
        else answer.lead(study, subject),
        warnings=warnings,
        facts=facts,
        kinds=None if study is None else answer.kinds(study, words),
        gains=None if study is None else answer.who_gains(study, words),
        importance=what_matters(
            importance,
            words,
            target=subject.target,
            has_classes=any(model["classes"].values()),
        ),
        tiles=answer.tiles_of(report, subject, history["fit_s"]),
        sentences=[] if study is None else [words.said(text) for text in study["sentences"]],
        measures=answer.measures(study, importance, words),
        leaderboards=() if study is None else leaderboards(study, words),
        tables=_tables(model, report, words),
        plots=[_plot(path, plot, words) for key, plot in plots.items() if key not in hidden],
        charts={key: _plot(path, plots[key], words) for key in _CHARTS if key in plots},
        vega=vega,
        request=_request(name, version, path, has_report=bool(report)),
        params=[(key, tables.text(value)) for key, value in model["lineage"]["params"].items()],
        lineage=_lineage(model, history, cell),
    )


def _rows(dataset: Mapping[str, Any] | None, words: GroupWords) -> str:
    if dataset is None or dataset["n_samples"] is None:
        return ""
    rows = formats.count(dataset["n_samples"], "row")
    return f"{rows}, {words.counted(dataset['n_tasks'])}"


def _learned(model: Mapping[str, Any], words: GroupWords) -> str:
    return f"{capital(name_of(model))} learned {words.counted(len(model['tasks']))}"


def _tables(model: Mapping[str, Any], report: Mapping[str, Any], words: GroupWords) -> list[Table]:
    """Return the tables behind the charts."""
    study, evaluation = answer.study_of(report), report.get("evaluation")
    found = [
        reports.means(model, evaluation, words),
        reports.recall(report.get("classes")),
        None if study is None else reports.gains(study, words),
        reports.scores(model, evaluation, words),
        reports.candidates(report["search"], words) if report.get("search") else None,
    ]
    return [table for table in found if table is not None]


def _notes(
    model: Mapping[str, Any],
    report: Mapping[str, Any],
    words: GroupWords,
) -> tuple[list[str], list[str]]:
    """Return the notes that need an act, and those that are good to know."""
    leaks = [leak["sentence"] for leak in report.get("leaking_columns", ())]
    acts, others = notes_of(model["warnings"], words)
    found = [
        *(report.get("evaluation") or {}).get("sentences", ()),
        *(report.get("classes") or {}).get("sentences", ()),
    ]
    facts = [words.said(text) for text in found] + others + _prepared(model)
    if model["new_tasks"] == "common":
        known = words.counted(len(model["tasks"]))
        facts.append(f"A {words.one} that is not among the {known} gets the common prediction.")
    return [words.said(text) for text in leaks] + acts, facts


def _prepared(model: Mapping[str, Any]) -> list[str]:
    """Return what stands in for missing values."""
    preparation = model["preparation"]
    if preparation is None:
        return []
    mark = " is missing"
    names = {
        column.removesuffix(mark)
        for part in preparation["parts"]
        for column in part["prepared"]
        if column.endswith(mark)
    }
    how = _IMPUTED.get(preparation["recipe"]["impute"])
    if not names or how is None:
        return []
    listed = ", ".join(sorted(names)[:10])
    return [f"{how} of the training rows stands in for missing values of {listed}."]


def _request(name: str, version: int, path: str, *, has_report: bool) -> ApiExample:
    python = f"model = client.model({name!r}, {version})\nprint(model.info)"
    if not has_report:
        return ApiExample([path], python)
    return ApiExample([path, f"{path}/report"], f"{python}\nprint(model.report())")


async def _plots(api: Api, path: str) -> list[dict[str, Any]]:
    page = await api.find(f"{path}/plots")
    return [] if page is None else list(page["items"])


def _plot(path: str, plot: Mapping[str, Any], words: GroupWords) -> PlotView:
    return PlotView.of(plot, plot_href(f"{path}/plots/{plot['name']}"), words)


def _lineage(
    model: Mapping[str, Any], history: Mapping[str, Any], dataset: Cell
) -> list[tuple[str, Cell]]:
    lineage = model["lineage"]
    stopped = _STOPPED.get(model["stop_reason"] or "")
    fit = formats.duration(history["fit_s"])
    return [
        (
            "Algorithm",
            tables.text(model["algorithm"], f"/algorithms/{segment(model['algorithm'])}"),
        ),
        ("Fit", tables.text(fit if stopped is None else f"{fit}; {stopped}")),
        ("Dataset", dataset),
        ("Job", tables.code(lineage["job_id"], f"/jobs/{lineage['job_id']}")),
        ("Seed", tables.text(str(lineage["seed"]))),
        ("Trained", tables.time(model["created_at"])),
        ("Peak memory", tables.text(f"{formats.number(round(history['peak_memory_mb']))} MiB")),
        ("Artifact", tables.text(formats.size(model["artifact_bytes"]))),
        ("Artifact's SHA-256", tables.code(model["artifact_sha256"])),
        ("Software", tables.text(lineage["software"])),
    ]
