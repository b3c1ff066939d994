"""Notes on the data and the fit of a job or a model, by whether they need an act."""

from collections.abc import Iterable
from typing import Final

from service.ui.views.words import GroupWords

#: What a note says that calls for another training.
_ACTS: Final = ("max_iter", "budget_s", "converge")


def notes_of(texts: Iterable[str], words: GroupWords) -> tuple[list[str], list[str]]:
    """Return notes in the words of pages: those that need an act, and those good to know."""
    said = [words.said(text) for text in texts]
    acts = [text for text in said if any(word in text for word in _ACTS)]
    return acts, [text for text in said if text not in acts]
