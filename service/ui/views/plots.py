"""Plots of pages, as images that can become interactive."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its title, what it shows in a sentence, and its address."""

    title: str
    sentence: str
    href: str
