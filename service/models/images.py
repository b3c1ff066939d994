"""Images of Vega-Lite specifications, made in a process of their own.

The conversion would block every thread of the server for up to two seconds.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from starlette.requests import ClientDisconnect

from service.errors.problems import Problem
from service.observability.logs import log
from service.processes.supervision import (
    End,
    ProcessLimits,
    Program,
    SupervisedProcess,
    bare_environment,
)
from service.processes.turns import NoTurn, Turns
from service.settings import MIB

#: Maximum time for an image, including the start of the process; proxies end requests after 60 s.
TIMEOUT_S: Final = 50.0
#: Maximum number of requests that wait for an image, each in a thread of the server. A browser
#: sends six for each page.
MAX_WAITING: Final = 16
#: Total size of the images that are kept.
_MAX_KEPT_BYTES: Final = 32 * MIB
#: Type of the script that draws specifications, in place of that of an image.
JAVASCRIPT: Final = "text/javascript"
#: Characters that XML does not allow, even as references; the conversion aborts at them.
_XML_INVALID: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ImageProcess:
    """A process that converts one specification at a time; it starts with the first one."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S) -> None:
        self._limits = ProcessLimits(timeout_s)
        self._process = SupervisedProcess()
        self._turns = Turns(MAX_WAITING)
        #: Images by the hash of their request, in the order in which they were drawn.
        self._drawn: dict[bytes, bytes] = {}

    def convert(
        self,
        spec: Mapping[str, Any],
        media_type: str,
        *,
        owner: str,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> bytes:
        """Return a specification as an image; the latest ones are kept.

        Parameters
        ----------
        is_awaited
            Called before the image is drawn; returns whether its client still waits for it.

        Raises
        ------
        Problem
            Too many requests wait, or the process took too long or ended.
        ClientDisconnect
            The client has gone, such as a browser that has left a page.
        """
        request = {"spec": _as_xml(spec), "media_type": media_type}
        key = sha256(json.dumps(request).encode()).digest()
        image = self._drawn.get(key)
        try:
            if image is None:
                with self._turns.turn(owner):
                    if not is_awaited():
                        raise ClientDisconnect
                    image = self._drawn.get(key) or self._draw(request)
                    self._drawn[key] = image
                    self._drop_first_drawn()
        except NoTurn:
            raise _unavailable("too many plots are being drawn; try again later") from None
        return image

    def _drop_first_drawn(self) -> None:
        while sum(map(len, self._drawn.values())) > _MAX_KEPT_BYTES:
            del self._drawn[next(iter(self._drawn))]

    def vega_bundle(self) -> bytes:
        """Return the script that draws specifications in a browser, as ``window.vegaEmbed``."""
        return self.convert({}, JAVASCRIPT, owner="")

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _draw(self, request: dict[str, Any]) -> bytes:
        end = self._run(request)
        if end.answer is None and end.stopped is None:
            end = self._run(request)  # it may have ended, being idle, just when it got the request
        if end.stopped is not None:
            limit_s = self._limits.timeout_s
            raise _unavailable(f"the plot could not be drawn within {limit_s:g} s")
        if end.answer is None:
            log.error("images.crashed", code=end.exit_code, output=end.output)
            raise _unavailable("the process that draws plots ended; try again later")
        if end.answer["type"] == "failed":
            raise RuntimeError(f"a plot cannot be drawn: {end.answer['detail']}")
        return b64decode(end.answer["image"])

    def _run(self, request: dict[str, Any]) -> End:
        program = Program("service.models.image_child", bare_environment())
        return self._process.run(program, request, self._limits)


def _as_xml(value: Any) -> Any:
    """Return JSON with a replacement for each character that XML does not allow."""
    if isinstance(value, str):
        return _XML_INVALID.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {key: _as_xml(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_as_xml(member) for member in value]
    return value


def _unavailable(detail: str) -> Problem:
    return Problem("unavailable", detail, headers={"Retry-After": "5"})
