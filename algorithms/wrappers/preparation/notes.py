"""Notes about how columns were read."""

from typing import NamedTuple


class Note(NamedTuple):
    """A note about a column.

    Attributes
    ----------
    advice
        What to do about it in an upload, if anything.
    """

    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.advice}" if self.advice else self.text
