"""Progress of parsing, reported by those parsers that read a file from start to end."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

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


class ReportingFile(io.FileIO):
    """A file that reports the share up to which it has been read, from any thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._report: Final = _report.get()  # threads of a parser have no context
        self._n_bytes: Final = max(1, os.fstat(self.fileno()).st_size)

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        data = super().read(-1 if size is None else size)
        self._report(min(1.0, self.tell() / self._n_bytes))
        return data or b""
