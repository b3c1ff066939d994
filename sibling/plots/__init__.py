"""Plots of models as Vega-Lite specifications: the same in estimators, service and client.

A plot does not depend on an algorithm. It is available if the model, its history or its report has
the data to show.
"""

from sibling.charts import Theme
from sibling.plots.catalogue import (
    PLOTS,
    NoPlot,
    UnknownPlot,
    available,
    find_plot,
    specification,
)
from sibling.plots.compared import compared, compared_specification, held_out_scores
from sibling.plots.held_out import held_out_rows
from sibling.plots.source import Content, HeldOut, Plot, Source, metric_words
from sibling.plots.style import THEMES

__all__ = [
    "PLOTS",
    "THEMES",
    "Content",
    "HeldOut",
    "NoPlot",
    "Plot",
    "Source",
    "Theme",
    "UnknownPlot",
    "available",
    "compared",
    "compared_specification",
    "find_plot",
    "held_out_rows",
    "held_out_scores",
    "metric_words",
    "specification",
]
