"""Colours and themes, readable with colour blindness and on light and dark pages."""

from collections.abc import Sequence
from typing import Any, Final, get_args

from algorithms.interface.errors import explain_unknown
from sibling.charts import Theme

THEMES: Final[tuple[Theme, ...]] = get_args(Theme)
#: Okabe and Ito's colours without black and yellow, which vanish on dark or on light pages.
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7")
SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
#: Number of classes that can be told apart by colour and shape.
MAX_CLASSES: Final = len(COLOURS) * len(SHAPES)
#: Colours of -1, 0 and 1.
DIVERGING: Final = ("#2166ac", "#f7f7f7", "#b2182b")
#: A neutral line that is visible on both themes.
NEUTRAL: Final = "#808080"

_INK: Final[dict[Theme, dict[str, str]]] = {
    "light": {"page": "#ffffff", "text": "#1f2328", "line": "#d0d7de"},
    "dark": {"page": "#14171c", "text": "#e6e8eb", "line": "#3d434d"},
}


def config(theme: Theme, *, is_narrow: bool = False) -> dict[str, Any]:
    """Return the configuration of a chart.

    Parameters
    ----------
    is_narrow
        Whether names have less room, and legends are below, one below the other.

    Raises
    ------
    ValueError
        There is no such theme.
    """
    if theme not in THEMES:
        raise ValueError(explain_unknown(theme, THEMES, what="theme"))
    ink = _INK[theme]
    labels = {"labelColor": ink["text"], "titleColor": ink["text"]}
    limit, left, right = (90, 24, 12) if is_narrow else (160, 36, 56)
    # an expression, since the schema of Vega-Lite has no other form of this property of Vega
    layout = {"expr": "{bottom: {anchor: 'start', direction: 'vertical', margin: 8}}"}
    below = {"orient": "bottom", "columns": 2, "layout": layout} if is_narrow else {}
    axis = {"domainColor": ink["line"], "tickColor": ink["line"], "gridColor": ink["line"]}
    return {
        "background": ink["page"],
        # room at the sides: texts are wider in the fonts of some browsers than where they are drawn
        "padding": {"left": left, "top": 12, "right": right, "bottom": 12},
        "font": "system-ui, sans-serif",
        "axis": {**labels, **axis, "labelLimit": limit, "gridOpacity": 0.6},
        # room for labels that are wider where the image is shown than where it was made
        "axisY": {"titlePadding": 14},
        "axisQuantitative": {"labelSeparation": 14},
        # labels that would run into each other are left out, as those of numbers are by default
        "axisDiscrete": {"labelOverlap": "greedy"},
        "legend": {**labels, **below, "labelLimit": limit},
        "header": labels,
        "title": {
            "color": ink["text"],
            "subtitleColor": ink["text"],
            "anchor": "start",
            "offset": 12,
            "fontSize": 15,
        },
        "view": {"stroke": ink["line"]},
        "line": {"strokeWidth": 2},
        "range": {"category": list(COLOURS)},
    }


def class_scales(classes: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the scales of colour and shape, such that any two classes differ in one of both."""
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(classes))]
    n = len(SHAPES)
    # the shape changes with the colour, and moves on where the colours begin again
    shapes = [SHAPES[(i + i // len(COLOURS)) % n] for i in range(len(classes))]
    return (
        {"domain": list(classes), "range": colours},
        {"domain": list(classes), "range": shapes},
    )
