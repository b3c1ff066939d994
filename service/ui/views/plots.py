"""Plots of pages, as images that can become interactive."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlotView:
    """A plot: its title, its finding in a sentence, and its address."""

    title: str
    sentence: str
    href: str


def plot_href(path: str, query: str = "") -> str:
    """Return the address of a plot without its title, which a page has as text."""
    return f"{path}?{query}&title=false" if query else f"{path}?title=false"
