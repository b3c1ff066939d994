"""Pages: overview, datasets, jobs, models and algorithms."""

from dataclasses import replace
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from service.storage.dataset_states import UNFINISHED_DATASETS
from service.ui.api import segment
from service.ui.api_examples import ApiExample, listing
from service.ui.rendering import Frame, render, scopes_of
from service.ui.routing import Access, PageRoute
from service.ui.vega_routes import BUNDLE
from service.ui.views import (
    algorithms,
    dataset_rows,
    datasets,
    job,
    jobs,
    lists,
    models,
    monitor,
    predict,
    versions,
)
from service.ui.views.overview import overview

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_DATASETS: Final = "/datasets"
_JOBS: Final = "/jobs"
_MODELS: Final = "/models"
#: Stream of changes of all jobs and datasets, and the script that follows it.
_CHANGES: Final = "/v1/jobs:changes"
_LIVE: Final = ("live.js",)
#: Scripts of pages with first steps.
_FIRST: Final = ("sample.js", *_LIVE)


@router.get("/")
async def overview_page(request: Request, api: Access) -> Response:
    """Return the overview."""
    frame = Frame(
        "Overview", "/", listing("jobs", {}), None, _CHANGES, "jobs datasets", scripts=_FIRST
    )
    return render(request, "overview.html", frame, await overview(api))


@router.get("/datasets")
async def datasets_page(request: Request, api: Access) -> Response:
    """Return the list of datasets."""
    view = await lists.datasets_view(api, request.query_params)
    frame = Frame(
        "Datasets",
        _DATASETS,
        listing("datasets", view.query),
        None,
        _CHANGES,
        "datasets",
        scripts=("select.js", *_FIRST),
    )
    return render(request, "datasets.html", frame, view)


@router.get("/datasets/{dataset_id}")
async def dataset_page(request: Request, api: Access, dataset_id: str) -> Response:
    """Return the page of a dataset."""
    view = await datasets.dataset_view(api, dataset_id)
    path = f"/v1/datasets/{dataset_id}/preview"
    example = ApiExample([path], f"print(client.preview({dataset_id!r}))")
    frame = Frame(view.dataset["name"], _DATASETS, example, scripts=("actions.js", *_LIVE))
    if view.dataset["state"] in UNFINISHED_DATASETS:
        frame = replace(frame, live_path=_CHANGES, live_events="datasets", reloads=True)
    return render(request, "dataset.html", frame, view)


@router.get("/datasets/{dataset_id}/rows")
async def dataset_rows_page(
    request: Request,
    api: Access,
    dataset_id: str,
    task: str = "",
    first_row: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Return a page with rows of a task."""
    view = await dataset_rows.rows_view(api, dataset_id, task, first_row)
    query = urlencode({"task": view.task, "rows": dataset_rows.N_ROWS, "first_row": view.first_row})
    example = ApiExample(
        [f"/v1/datasets/{dataset_id}/preview?{query}"],
        f"print(client.preview({dataset_id!r}, [{view.task!r}], n_rows={dataset_rows.N_ROWS}, "
        f"first_row={view.first_row}))",
    )
    frame = Frame(f"{view.task} of {view.dataset['name']}", _DATASETS, example)
    return render(request, "dataset_rows.html", frame, view)


@router.get("/jobs")
async def jobs_page(request: Request, api: Access) -> Response:
    """Return the list of jobs."""
    await api.get("/v1/jobs", page_size=1)  # refuses before the scopes are looked up
    view = await jobs.jobs_view(api, request.query_params, scopes_of(request))
    scripts = ("select.js", *_LIVE)
    frame = Frame(
        "Jobs", _JOBS, listing("jobs", view.query), None, _CHANGES, "jobs", scripts=scripts
    )
    return render(request, "jobs.html", frame, view)


@router.get("/jobs/{job_id}")
async def job_page(request: Request, api: Access, job_id: str) -> Response:
    """Return the page of a job."""
    view = await job.job_view(api, job_id)
    live = "" if view.job["is_final"] else f"/v1/jobs/{job_id}/events"
    frame = Frame(
        view.title,
        _JOBS,
        ApiExample([f"/v1/jobs/{job_id}"], f"print(client.job({job_id!r}).info)"),
        view.submission,
        live,
        "state progress cancel",
        scripts=("actions.js", *_LIVE),
    )
    return render(request, "job.html", frame, view)


@router.get("/models")
async def models_page(request: Request, api: Access) -> Response:
    """Return the list of models."""
    view = await lists.models_view(api, request.query_params)
    frame = Frame(
        "Models",
        _MODELS,
        listing("models", view.query),
        None,
        _CHANGES,
        "jobs",
        scripts=("select.js", *_LIVE),
    )
    return render(request, "models.html", frame, view)


@router.get("/models/{name}")
async def model_page(request: Request, api: Access, name: str) -> Response:
    """Return the page of a model."""
    view = await models.model_view(api, name, request.query_params.get("page_token"))
    python = f"for version in client.versions({name!r}):\n    print(version)"
    example = ApiExample([f"/v1/models/{segment(name)}/versions"], python)
    frame = Frame(name, _MODELS, example, scripts=("select.js",))
    return render(request, "model.html", frame, view)


@router.get("/models/{name}/{version}")
async def version_page(
    request: Request, api: Access, name: str, version: Annotated[int, Path(ge=1, lt=2**31)]
) -> Response:
    """Return the page of a version of a model."""
    view = await versions.version_view(api, name, version, vega=BUNDLE)
    scripts = ("actions.js", "try.js", *(["plot.js"] if view.plots or view.charts else []))
    frame = Frame(f"{name} / {version}", _MODELS, view.request, scripts=scripts)
    return render(request, "version.html", frame, view)


@router.get("/models/{name}/{version}/predict")
async def predict_page(
    request: Request, api: Access, name: str, version: Annotated[int, Path(ge=1, lt=2**31)]
) -> Response:
    """Return the page that predicts rows with a version of a model."""
    view = await predict.predict_view(api, name, version)
    title = f"Predict with {name} / {version}"
    frame = Frame(title, _MODELS, None, view.request, scripts=("predict.js",))
    return render(request, "predict.html", frame, view)


@router.get("/models/{name}/aliases/{alias}/monitor")
async def monitor_page(
    request: Request, api: Access, name: str, alias: str, version: int | None = None
) -> Response:
    """Return the page of the monitor of an alias."""
    view = await monitor.monitor_view(api, name, alias, version)
    title = f"{name}@{alias} in use"
    frame = Frame(title, _MODELS, view.request, scripts=("actions.js", "monitor.js"))
    return render(request, "monitor.html", frame, view)


@router.get("/algorithms")
async def algorithms_page(request: Request, api: Access) -> Response:
    """Return the list of algorithms."""
    frame = Frame("Algorithms", "/algorithms", listing("algorithms", {}))
    return render(request, "algorithms.html", frame, await algorithms.algorithms_view(api))


@router.get("/algorithms/{name}")
async def algorithm_page(request: Request, api: Access, name: str) -> Response:
    """Return the page of an algorithm."""
    view = await algorithms.algorithm_view(api, name)
    example = ApiExample([f"/v1/algorithms/{segment(name)}"], f"print(client.algorithm({name!r}))")
    frame = Frame(view.algorithm["title"], "/algorithms", example)
    return render(request, "algorithm.html", frame, view)
