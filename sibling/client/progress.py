"""Progress bars of the client, on a terminal or in a notebook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TextColumn

#: Called with the number of bytes done and the total number of bytes.
OnProgress = Callable[[int, int], None]

#: Text to the left of every bar.
_DESCRIBED: Final = "{task.description:<12}"


def progress_bar(*columns: ProgressColumn, transient: bool = False) -> Progress:
    """Return a bar, which shows nothing where nobody would see it.

    Parameters
    ----------
    columns
        Columns to the right of the bar.
    transient
        Whether the bar disappears at its end.
    """
    # standard output may be read by a program
    console = Console(stderr=True)
    return Progress(
        TextColumn(_DESCRIBED, markup=False),
        BarColumn(),
        *columns,
        console=console,
        transient=transient,
        disable=not (console.is_terminal or console.is_jupyter),
    )


@contextmanager
def upload_bar(
    on_progress: OnProgress, on_parsed: OnProgress
) -> Iterator[tuple[OnProgress, OnProgress]]:
    """Show an upload: its transfer, then how far the service has read it.

    Yields
    ------
    (OnProgress, OnProgress)
        Functions to call instead of the arguments, which they call too.
    """
    with progress_bar(DownloadColumn(), transient=True) as bar:
        row = bar.add_task("uploading", total=None)

        def show_sent(n_sent: int, size: int) -> None:
            what = "reading" if n_sent == size else "uploading"
            bar.update(row, completed=n_sent, total=size, description=what)
            on_progress(n_sent, size)

        def show_parsed(n_parsed: int, size: int) -> None:
            bar.update(row, completed=n_parsed, total=size, description="reading")
            on_parsed(n_parsed, size)

        yield show_sent, show_parsed
