"""JSON logs: events with ids and numbers, without data."""

import logging
import sys
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any, Final

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer

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
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        # one write per event, so that lines of several processes are not mixed; sys.stderr is
        # looked up for each logger, since tests replace it
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
    )
    server = logging.getLogger("uvicorn.error")
    server.handlers, server.propagate = [_ServerEvents()], False
    server.setLevel(level.upper())


class _ServerEvents(logging.Handler):
    """Handler that writes log records of uvicorn as events."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event."""
        message = record.getMessage()
        log.log(record.levelno, "server", message=message, exc_info=record.exc_info)


def request_id() -> str | None:
    """Return the id of the current request."""
    return _request_id.get()


def bind_request_id(request_id: str) -> None:
    """Set the request id of the current context."""
    _request_id.set(request_id)


def _add_request_id(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    found = request_id()
    return event if found is None else {"request_id": found, **event}
