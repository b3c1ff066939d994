"""Progress of parsing, reported by parsers that read a file from start to end."""

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
    """Pass the progress that parsers report to a function."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


class ReportingFile(io.FileIO):
    """A part of a file that reports the share up to which it has been read, from any thread.

    Parts are read at the same time, so only the first one reports.

    Parameters
    ----------
    start, end
        First byte of the part and the byte after it; default: the whole file.
    """

    def __init__(self, path: Path, start: int = 0, end: int | None = None) -> None:
        super().__init__(path)
        self._report: Final = _report.get()  # threads of a parser have no context
        self.start: Final = self.seek(start)
        self._end: Final = os.fstat(self.fileno()).st_size if end is None else end

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        left = self._end - self.tell()
        data = super().read(left if size is None or size < 0 else min(size, left))
        if self.start == 0:
            self._report(self.tell() / max(1, self._end))
        return data or b""
