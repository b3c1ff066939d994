"""JSON logs: events with ids and numbers, without data."""

import json
import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer

#: Maximum length of a line. All processes write to one pipe; POSIX guarantees for a write of at
#: most PIPE_BUF bytes, which is 4096 on Linux, that no other comes in between.
MAX_LINE_BYTES: Final = 4096
#: Numbers of frames and lengths of texts to which a longer event is cut, in this order.
_CUTS: Final = ((50, 1000), (20, 500), (8, 250), (4, 100))
#: Fields that are left of an event which is still too long.
_MAIN_FIELDS: Final = ("request_id", "event", "level", "timestamp")

log: Any = structlog.get_logger()
_request_id: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)


def configure_logs(level: str = "info") -> None:
    """Write one JSON object per event to standard error."""
    structlog.configure(
        processors=[
            _add_request_id,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # without local variables, which contain data and passwords
            ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            _render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        # one write per event, so that lines of several processes are not mixed; sys.stderr is
        # looked up for each logger, since tests replace it
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
    )
    server = logging.getLogger("uvicorn.error")
    server.handlers, server.propagate = [LogRecords("server")], False
    server.setLevel(level.upper())


class LogRecords(logging.Handler):
    """Handler that writes log records of a library as events of one name."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self._event = event

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event."""
        message = record.getMessage()
        log.log(record.levelno, self._event, message=message, exc_info=record.exc_info)


def request_id() -> str | None:
    """Return the id of the current request."""
    return _request_id.get()


def bind_request_id(request_id: str) -> None:
    """Set the request id of the current context."""
    _request_id.set(request_id)


def _add_request_id(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    current_id = request_id()
    return event if current_id is None else {"request_id": current_id, **event}


def _render(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    """Return an event as JSON on one line, cut if it is too long."""
    line = _dump(event)
    if len(line) < MAX_LINE_BYTES:
        return line
    for max_frames, max_text in _CUTS:
        cut = _cut(event, max_frames, max_text)
        line = _dump({**cut, "is_cut": True})
        if len(line) < MAX_LINE_BYTES:
            return line
    main = {name: event[name] for name in _MAIN_FIELDS if name in event}
    return _dump({**_cut(main, 0, 100), "is_cut": True})


def _dump(event: Mapping[str, Any]) -> str:
    return json.dumps(event, default=repr)  # ASCII: a character is a byte


def _cut(value: Any, max_frames: int, max_text: int) -> Any:
    """Return a value with shorter texts, and with the innermost frames of each traceback only."""
    if isinstance(value, str):
        return value if len(value) <= max_text else f"{value[:max_text]}..."
    if isinstance(value, Mapping):
        if value.keys() >= {"filename", "lineno", "name"}:  # a frame
            path = Path(value["filename"])
            place = "/".join(path.parts[-3:])
            return {"filename": place, "lineno": value["lineno"], "name": value["name"]}
        return {key: _cut(part, max_frames, max_text) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(part, max_frames, max_text) for part in value[-max_frames:]]
    return value
