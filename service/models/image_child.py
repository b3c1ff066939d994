"""The process that converts Vega-Lite specifications to images, started by ``images.py``."""

from base64 import b64encode
from typing import Any, Final

import vl_convert

from service.processes.requests import connect, serve
from service.processes.wire import Wire

#: It ends after this time without work: it takes 200 MB, and plots are rarely drawn.
_MAX_IDLE_S: Final = 120
#: The script's only global name.
_SNIPPET: Final = "window.vegaEmbed = vegaEmbed;"
#: Pixels of a PNG for each pixel of a screen without scaling.
_SCALE: Final = 2


def main() -> None:
    """Convert until there is no more to do."""
    serve(connect(), _run, max_idle_s=_MAX_IDLE_S)


def _run(request: dict[str, Any], _: Wire) -> dict[str, Any]:
    try:
        image = convert(**request)
    except ValueError as error:
        return {"type": "failed", "detail": str(error)}
    return {"type": "drawn", "image": b64encode(image).decode()}


def convert(spec: dict[str, Any], media_type: str) -> bytes:
    """Return a specification as an image, or the script that draws specifications in a browser.

    Nothing is fetched over the network.
    """
    if media_type == "text/javascript":
        bundle: str = vl_convert.javascript_bundle(_SNIPPET)
        return bundle.encode()
    if media_type == "image/svg+xml":
        svg: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
        return svg.encode()
    png: bytes = vl_convert.vegalite_to_png(spec, scale=_SCALE, allowed_base_urls=[])
    return png


if __name__ == "__main__":
    main()
