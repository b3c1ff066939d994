"""Program that converts Vega-Lite specifications to images, started by ``images.py``.

It reads one JSON line for each image and writes a JSON line with the number of bytes, then these.
"""

import json
import resource
import select
import sys
from pathlib import Path
from typing import Any, Final

import vl_convert

#: It ends after this time without work: it takes 200 MB, and plots are rarely drawn.
_IDLE_S: Final = 120
#: The script's only global name.
_SNIPPET: Final = "window.vegaEmbed = vegaEmbed;"
#: Pixels of a PNG for each pixel of a screen without scaling.
_SCALE: Final = 2


def main() -> None:
    """Convert until there is no more to do."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    while select.select([sys.stdin], [], [], _IDLE_S)[0]:
        line = sys.stdin.buffer.readline()
        if not line:  # the server has ended
            return
        image, error = b"", None
        try:
            image = convert(**json.loads(line))
        except ValueError as problem:
            error = str(problem)
        answer = json.dumps({"size": len(image), "error": error})
        sys.stdout.buffer.write(answer.encode() + b"\n" + image)
        sys.stdout.buffer.flush()


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
