"""Plots of pages, as images that can become interactive."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.ui.views.words import GroupWords


@dataclass(frozen=True, slots=True)
class PlotView:
    """A plot: its title, its finding and what it leaves out in sentences, and its address."""

    title: str
    sentence: str
    href: str

    @classmethod
    def of(cls, plot: Mapping[str, Any], href: str, words: GroupWords) -> "PlotView":
        """Return a plot of the API in the words of pages."""
        sentences = " ".join([plot["sentence"], *plot["notes"]])
        return cls(words.said(plot["title"]), words.said(sentences), href)


def plot_href(path: str, query: str = "") -> str:
    """Return the address of a plot without its title, which a page has as text."""
    return f"{path}?{query}&title=false" if query else f"{path}?title=false"
