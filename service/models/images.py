"""Images of Vega-Lite specifications, made in a process of their own.

The conversion would block every thread of the server for up to two seconds.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from starlette.requests import ClientDisconnect

from service.errors.problems import Problem

#: Maximum time for an image, including the start of the process.
TIMEOUT_S: Final = 60.0
#: Maximum number of requests that wait for an image, each in a thread of the server. A browser
#: sends six for each page.
MAX_WAITING: Final = 16
#: Type of the script that draws specifications, in place of that of an image.
JAVASCRIPT: Final = "text/javascript"
#: Characters that XML does not allow, even as references; the conversion aborts at them.
_XML_INVALID: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ImageProcess:
    """A process that converts one specification at a time; it starts with the first one."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S, max_waiting: int = MAX_WAITING) -> None:
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(max_waiting)

    def convert(
        self,
        spec: Mapping[str, Any],
        media_type: str,
        *,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> bytes:
        """Return a specification as an image.

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
        if not self._places.acquire(blocking=False):
            raise _unavailable("too many plots are being drawn; try again later")
        try:
            with self._lock:
                if not is_awaited():
                    raise ClientDisconnect
                request = json.dumps({"spec": _as_xml(spec), "media_type": media_type}).encode()
                request += b"\n"
                # a process may end, being idle, just when it gets a request
                image = self._ask(request) or self._ask(request)
        finally:
            self._places.release()
        if image is None:
            raise _unavailable("the process that draws plots ended; try again later")
        return image

    def vega_bundle(self) -> bytes:
        """Return the script that draws specifications in a browser, as ``window.vegaEmbed``."""
        return self.convert({}, JAVASCRIPT)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(BrokenPipeError), process:
                process.kill()

    def _ask(self, request: bytes) -> bytes | None:
        """Return an image; None if the process ended by itself.

        Raises
        ------
        Problem
            The process took too long.
        """
        process = self._process = self._process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        is_late = threading.Event()

        def stop() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(self._timeout_s, stop)
        timer.start()
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(request)
                process.stdin.flush()
            line = process.stdout.readline()
            answer = json.loads(line) if line.endswith(b"\n") else None
            image = b"" if answer is None else process.stdout.read(answer["size"])
        finally:
            timer.cancel()
        if answer is None or len(image) < answer["size"]:
            self.close()
            if is_late.is_set():
                raise _unavailable(f"the plot could not be drawn within {self._timeout_s:g} s")
            return None
        if answer["error"] is not None:
            raise RuntimeError(f"a plot cannot be drawn: {answer['error']}")
        return image


def _as_xml(value: Any) -> Any:
    """Return JSON with a replacement for each character that XML does not allow."""
    if isinstance(value, str):
        return _XML_INVALID.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {key: _as_xml(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_as_xml(member) for member in value]
    return value


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "service.models.image_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # signals of a terminal are for the server
    )


def _unavailable(detail: str) -> Problem:
    return Problem("unavailable", detail, headers={"Retry-After": "5"})
