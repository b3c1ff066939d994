"""The automatic choice of a model, as its page shows it."""

from collections.abc import Mapping
from typing import Any

from service.ui import formats, tables
from service.ui.tables import Row, Table


def leaderboard(choice: Mapping[str, Any]) -> Table:
    """Return the methods of an automatic choice, the best score on held-out rows first."""
    rows = [
        Row(f"method-{i}", [*_cells(choice, row), tables.text(_interval(row))])
        for i, row in enumerate(choice["leaderboard"])
    ]
    better = "larger" if choice["larger_is_better"] else "smaller"
    title = f"Methods on the same held-out rows ({better} {choice['title']} is better)"
    return Table(title, ("Method", "Chosen", choice["title"], "95 % interval"), rows)


def _cells(choice: Mapping[str, Any], row: Mapping[str, Any]) -> list[tables.Cell]:
    is_chosen = all(row[name] == value for name, value in choice["chosen"].items())
    name = f"{row['algorithm']} {row['variant']}".strip()
    splits = f"in {row['n_chosen']} of {formats.count(choice['n_splits'], 'split')}"
    return [
        tables.text(name, note=row["role"].replace("_", " ")),
        tables.text("with all rows" if is_chosen else "", note=splits if row["n_chosen"] else ""),
        tables.number(row["value"]),
    ]


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] is None:
        return ""
    return f"{formats.number(row['low'])} to {formats.number(row['high'])}"
