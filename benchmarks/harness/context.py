"""What a benchmark gets when it runs."""

from dataclasses import dataclass
from pathlib import Path


class Skipped(Exception):
    """A benchmark cannot run here: data or a peer is missing."""


@dataclass(frozen=True)
class Context:
    """How a benchmark is to run.

    Parameters
    ----------
    is_quick
        Whether to run the quick form, which takes at most about a minute.
    data
        Folder with datasets.
    """

    is_quick: bool = False
    data: Path | None = None

    def folder(self, *names: str) -> Path:
        """Return the folder with datasets.

        Raises
        ------
        Skipped
            There is no such folder, or it lacks one of these files.
        """
        if self.data is None:
            raise Skipped("needs datasets; name their folder with --data FOLDER")
        missing = [name for name in names if not (self.data / name).exists()]
        if missing:
            raise Skipped(f"the folder of --data has no {', '.join(missing)}")
        return self.data
