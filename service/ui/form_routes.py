"""Pages with forms: upload a dataset, submit a job, compare models."""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from service.ui.api_examples import ApiExample, listing
from service.ui.rendering import Frame, render
from service.ui.routing import Access, PageRoute
from service.ui.vega_routes import BUNDLE
from service.ui.views.comparison import comparison_view
from service.ui.views.forms import job_form
from sibling.client.datasets import MEDIA_TYPES

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_UPLOAD: Final = Frame(
    "Upload a dataset",
    "/datasets",
    listing("datasets", {}),
    ApiExample(
        ["/v1/datasets?name=table&target_column=target"],
        'print(client.upload("table.csv", target_column="target"))',
        file="table.csv",
    ),
    scripts=("upload.js",),
)
_JOB: Final = Frame("New job", "/jobs", scripts=("form.js",))
_COMPARE: Final = Frame("Compare models", "/models", scripts=("plot.js",))

Text = Annotated[str, Query(max_length=200)]


@router.get("/datasets/new")
async def upload_page(request: Request, api: Access) -> Response:
    """Return the page to upload a dataset."""
    await api.get("/v1/datasets", page_size=1)  # asks for a key where one is needed
    return render(request, "upload.html", _UPLOAD, MEDIA_TYPES)


@router.get("/jobs/new")
async def job_form_page(
    request: Request, api: Access, dataset: Text = "", algorithm: Text = "", like: Text = ""
) -> Response:
    """Return the page to submit a job."""
    view = await job_form(api, dataset=dataset, algorithm=algorithm, like=like)
    return render(request, "job_form.html", _JOB, view)


@router.get("/compare")
async def compare_page(
    request: Request, api: Access, models: Annotated[str, Query(max_length=1000)] = ""
) -> Response:
    """Return the page that compares versions of models."""
    view = await comparison_view(api, models)
    return render(request, "compare.html", replace(_COMPARE, example=view.example), (view, BUNDLE))
