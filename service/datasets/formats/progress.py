"""Progress of parsing, reported by those parsers that read a file from start to end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_report: ContextVar[Callable[[float], None]] = ContextVar("report", default=lambda _share: None)


def report_progress(share: float) -> None:
    """Report the share of the file that has been parsed, 0 to 1."""
    _report.get()(share)


@contextmanager
def progress_to(report: Callable[[float], None]) -> Iterator[None]:
    """Pass what parsers report to a function."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)
