"""Pages: overview, datasets, jobs, models and algorithms."""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from service.ui.api import segment
from service.ui.rendering import Frame, render
from service.ui.routing import Access, PageRoute
from service.ui.vega_routes import BUNDLE
from service.ui.views import algorithms, datasets, jobs, lists, models
from service.ui.views.overview import overview

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_DATASETS: Final = "/datasets"
_JOBS: Final = "/jobs"
_MODELS: Final = "/models"
#: Stream of changes of all jobs and datasets, and the script that follows it.
_CHANGES: Final = "/v1/jobs:changes"
_LIVE: Final = ("live.js",)


@router.get("/")
async def overview_page(request: Request, api: Access) -> Response:
    """Return the overview."""
    frame = Frame("Overview", "/", "/v1/jobs", _CHANGES, "jobs datasets", scripts=_LIVE)
    return render(request, "overview.html", frame, await overview(api))


@router.get("/datasets")
async def datasets_page(request: Request, api: Access) -> Response:
    """Return the list of datasets."""
    frame = Frame("Datasets", _DATASETS, "/v1/datasets", _CHANGES, "datasets", scripts=_LIVE)
    view = await lists.datasets_view(api, request.query_params)
    return render(request, "datasets.html", frame, view)


@router.get("/datasets/{dataset_id}")
async def dataset_page(request: Request, api: Access, dataset_id: str) -> Response:
    """Return the page of a dataset."""
    view = await datasets.dataset_view(api, dataset_id)
    path = f"/v1/datasets/{dataset_id}/preview"
    frame = Frame(view.dataset["name"], _DATASETS, path, scripts=("actions.js", *_LIVE))
    if view.dataset["state"] in lists.UNFINISHED_DATASETS:
        frame = replace(frame, live_path=_CHANGES, live_events="datasets", reloads=True)
    return render(request, "dataset.html", frame, view)


@router.get("/jobs")
async def jobs_page(request: Request, api: Access) -> Response:
    """Return the list of jobs."""
    frame = Frame("Jobs", _JOBS, "/v1/jobs", _CHANGES, "jobs", scripts=_LIVE)
    view = await jobs.jobs_view(api, request.query_params)
    return render(request, "jobs.html", frame, view)


@router.get("/jobs/{job_id}")
async def job_page(request: Request, api: Access, job_id: str) -> Response:
    """Return the page of a job."""
    view = await jobs.job_view(api, job_id)
    live = "" if view.job["is_final"] else f"/v1/jobs/{job_id}/events"
    frame = Frame(
        f"Job {job_id}",
        _JOBS,
        f"/v1/jobs/{job_id}",
        live,
        "state progress cancel",
        scripts=("actions.js", *_LIVE),
    )
    return render(request, "job.html", frame, view)


@router.get("/models")
async def models_page(request: Request, api: Access) -> Response:
    """Return the list of models."""
    frame = Frame("Models", _MODELS, "/v1/models", _CHANGES, "jobs", scripts=_LIVE)
    view = await lists.models_view(api, request.query_params)
    return render(request, "models.html", frame, view)


@router.get("/models/{name}")
async def model_page(request: Request, api: Access, name: str) -> Response:
    """Return the page of a model."""
    view = await models.model_view(api, name, request.query_params.get("page_token"))
    frame = Frame(name, _MODELS, f"/v1/models/{segment(name)}/versions")
    return render(request, "model.html", frame, view)


@router.get("/models/{name}/{version}")
async def version_page(
    request: Request, api: Access, name: str, version: Annotated[int, Path(ge=1, lt=2**31)]
) -> Response:
    """Return the page of a version of a model."""
    view = await models.version_view(api, name, version, vega=BUNDLE)
    scripts = ("actions.js", "try.js", *(["plot.js"] if view.plots else []))
    frame = Frame(f"{name} / {version}", _MODELS, view.path, scripts=scripts)
    return render(request, "version.html", frame, view)


@router.get("/algorithms")
async def algorithms_page(request: Request, api: Access) -> Response:
    """Return the list of algorithms."""
    frame = Frame("Algorithms", "/algorithms", "/v1/algorithms")
    return render(request, "algorithms.html", frame, await algorithms.algorithms_table(api))


@router.get("/algorithms/{name}")
async def algorithm_page(request: Request, api: Access, name: str) -> Response:
    """Return the page of an algorithm."""
    view = await algorithms.algorithm_view(api, name)
    frame = Frame(view.algorithm["title"], "/algorithms", f"/v1/algorithms/{segment(name)}")
    return render(request, "algorithm.html", frame, view)
