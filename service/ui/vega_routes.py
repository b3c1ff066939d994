"""Vega's scripts for interactive plots, bundled by the package that draws plots on the server."""

import gzip
from functools import cache
from importlib.metadata import version
from typing import Annotated, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from service.http.routing import app_state
from service.models.context import ModelServices
from service.models.images import ImageProcess
from service.ui.assets import FOREVER

router = APIRouter(include_in_schema=False)

_TYPE: Final = "text/javascript; charset=utf-8"
#: Address of the bundle, which the version of the package determines.
BUNDLE: Final = f"/assets/vega-{version('vl-convert-python')}.js"


@router.get(BUNDLE)
def vega_bundle(
    request: Request, models: Annotated[ModelServices, app_state("models")]
) -> Response:
    """Return Vega, Vega-Lite and Vega-Embed; the first request of a process takes seconds."""
    compressed = _compressed(models.images)
    headers = {**FOREVER, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(compressed, media_type=_TYPE, headers=headers)
    return Response(gzip.decompress(compressed), media_type=_TYPE, headers=headers)


@cache
def _compressed(images: ImageProcess) -> bytes:
    return gzip.compress(images.vega_bundle())
