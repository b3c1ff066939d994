"""JSON logs: events with ids and numbers, never data."""

import logging
import sys
from typing import Any

import structlog

log: Any = structlog.get_logger()


def configure_logs(level: str = "info") -> None:
    """Write one JSON object per event to standard error."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def request_id() -> str | None:
    """Give the id of the request that is being answered."""
    value = structlog.contextvars.get_contextvars().get("request_id")
    return None if value is None else str(value)
