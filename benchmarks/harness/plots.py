"""Plots of tables as SVG."""

import altair as alt
import vl_convert

from benchmarks.harness.results import Table
from sibling.plots.style import config

_WIDTH = 420
_STEP = 20


def svg(table: Table) -> str:
    """Return the plot of a table."""
    plot = table.plot
    assert plot is not None
    labels, values = table.columns.index(plot.labels), table.columns.index(plot.values)
    groups = None if plot.groups is None else table.columns.index(plot.groups)
    rows = [
        {
            "label": _plain(row[labels]),
            "value": row[values],
            "group": None if groups is None else _plain(row[groups]),
        }
        for row in table.rows
        if isinstance(row[values], int | float)
    ]
    scale = alt.Scale(type="log" if plot.has_log_scale else "linear")
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("value:Q", title=plot.values, scale=scale),
        y=alt.Y("label:N", title=None if groups is None else plot.labels, sort=None),
    )
    if groups is not None:
        base = base.encode(
            yOffset=alt.YOffset("group:N", sort=None),
            color=alt.Color("group:N", title=plot.groups, sort=None),
        )
    # a logarithmic axis has no zero, where bars begin
    points, bars = base.mark_point(filled=True, size=70), base.mark_bar()
    marks = points if plot.has_log_scale else bars
    chart = marks.properties(width=_WIDTH, height=alt.Step(_STEP if groups is None else _STEP // 2))
    spec = chart.configure(**config("light")).to_dict()
    return str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))


def _plain(cell: object) -> str:
    return str(cell).replace("`", "")
