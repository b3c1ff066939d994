"""One version of a model: its scores, plots and example programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.http.requests import base_of
from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.api_examples import ApiExample
from service.ui.tables import Cell, Table
from service.ui.views import reports
from service.ui.views.lists import FORBIDDEN, dataset_cell
from service.ui.views.plots import PlotView, plot_href
from service.ui.views.snippets import example_of, snippets_of


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version of a model.

    Parameters
    ----------
    notes
        What the scores on held-out rows leave out, and classes that are never answered.
    recall
        Recall of each class; None for numbers, or without held-out rows.
    verdict, sentences
        Whether learning together helps, and why; empty without a comparison.
    means
        Means of the scores over the tasks.
    scores
        Scores of each task.
    methods
        Compared methods; None without a comparison or an automatic choice.
    gains
        Gain of the best multi-task method by task; None without a comparison.
    candidates
        Candidates of a search, the best first; None without a search.
    vega
        Address of the script that makes plots interactive.
    request
        Requests for the model and its report, if it has one.
    """

    model: Mapping[str, Any]
    path: str
    example: str
    snippets: Sequence[tuple[str, str]]
    sentence: str
    verdict: str
    sentences: Sequence[str]
    notes: Sequence[str]
    recall: Table | None
    means: Table
    scores: Table
    methods: Table | None
    gains: Table | None
    candidates: Table | None
    plots: Sequence[PlotView]
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
    evaluation, search = report.get("evaluation"), report.get("search")
    study = report.get("comparison") or report.get("choice")
    example = await example_of(api, model)
    dataset_id = model["lineage"]["dataset_id"]
    dataset = await api.find(f"/v1/datasets/{dataset_id}", refused=FORBIDDEN)
    return VersionView(
        model=model,
        path=path,
        example=example.csv(),
        snippets=snippets_of(model, example, base_of(api.request)),
        sentence=f"{_sentence(model, history)} {reports.held_out_sentence(report)}",
        verdict=reports.verdict_of(study),
        sentences=() if study is None else study["sentences"],
        notes=[
            *(leak["sentence"] for leak in report.get("leaking_columns", ())),
            *(evaluation or {}).get("sentences", ()),
            *(report.get("classes") or {}).get("sentences", ()),
        ],
        recall=reports.recall(report.get("classes")),
        means=reports.means(model, evaluation),
        scores=reports.scores(model, evaluation),
        methods=reports.methods(report),
        gains=None if study is None else reports.gains(study),
        candidates=None if search is None else reports.candidates(search),
        plots=await _plots(api, path),
        vega=vega,
        request=_request(name, version, path, has_report=bool(report)),
        params=[(key, tables.text(value)) for key, value in model["lineage"]["params"].items()],
        lineage=_lineage(model, history, dataset_cell(dataset_id, dataset)),
    )


def _request(name: str, version: int, path: str, *, has_report: bool) -> ApiExample:
    python = f"model = client.model({name!r}, {version})\nprint(model.info)"
    if not has_report:
        return ApiExample([path], python)
    return ApiExample([path, f"{path}/report"], f"{python}\nprint(model.report())")


def _sentence(model: Mapping[str, Any], history: Mapping[str, Any]) -> str:
    tasks = formats.count(len(model["tasks"]), "task")
    reason = {
        "converged": "; it converged",
        "stalled": "; it stopped because the objective no longer improved",
        "max_iter": "; it stopped at the maximum number of iterations",
    }.get(model["stop_reason"] or "", "")
    fit = formats.duration(history["fit_s"])
    return f"{model['algorithm']} learned {tasks} in {fit}{reason}."


async def _plots(api: Api, path: str) -> list[PlotView]:
    page = await api.find(f"{path}/plots")
    if page is None:
        return []
    return [
        PlotView(plot["title"], plot["sentence"], plot_href(f"{path}/plots/{plot['name']}"))
        for plot in page["items"]
    ]


def _lineage(
    model: Mapping[str, Any], history: Mapping[str, Any], dataset: Cell
) -> list[tuple[str, Cell]]:
    lineage = model["lineage"]
    return [
        (
            "Algorithm",
            tables.text(model["algorithm"], f"/algorithms/{segment(model['algorithm'])}"),
        ),
        ("Dataset", dataset),
        ("Job", tables.code(lineage["job_id"], f"/jobs/{lineage['job_id']}")),
        ("Seed", tables.text(str(lineage["seed"]))),
        ("Trained", tables.time(model["created_at"])),
        ("Peak memory", tables.text(f"{formats.number(round(history['peak_memory_mb']))} MiB")),
        ("Artifact", tables.text(formats.size(model["artifact_bytes"]))),
        ("Artifact's SHA-256", tables.code(model["artifact_sha256"])),
        ("Software", tables.text(lineage["software"])),
    ]
