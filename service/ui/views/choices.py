"""The automatic choice of a model, as its page shows it."""

from collections.abc import Mapping
from typing import Any, Final

from algorithms.evaluation.scores.metrics import score_name
from service.ui import formats, tables
from service.ui.tables import Table, TableRow

_MAX_METHODS: Final = 10


def leaderboard(choice: Mapping[str, Any]) -> Table:
    """Return the best methods of an automatic choice by their scores on held-out rows."""
    best = choice["leaderboard"][:_MAX_METHODS]
    values = tables.numbers([row["value"] for row in best])
    unseen = [row["left_out_tasks"] for row in best]
    left_out = tables.numbers(unseen) if any(value is not None for value in unseen) else []
    rows = [
        TableRow(
            f"method-{i}",
            [
                *_cells(choice, row),
                value,
                tables.quantity(formats.interval(row) or formats.NONE),
                *left_out[i : i + 1],
            ],
        )
        for i, (row, value) in enumerate(zip(best, values, strict=True))
    ]
    better = "larger" if choice["larger_is_better"] else "smaller"
    score = score_name(choice)
    title = f"Methods on the same held-out rows: {score}, {better} is better"
    if len(choice["leaderboard"]) > len(best):
        title += f": the best {len(best)} of {len(choice['leaderboard'])}"
    columns = ("Method", "Chosen", score, "95 % interval")
    return Table(title, (*columns, "Left-out tasks") if left_out else columns, rows)


def _cells(choice: Mapping[str, Any], row: Mapping[str, Any]) -> list[tables.Cell]:
    is_chosen = all(row[name] == value for name, value in choice["chosen"].items())
    name = f"{row['algorithm']} {row['variant']}".strip()
    splits = f"in {row['n_chosen']} of {formats.count(choice['n_splits'], 'split')}"
    share = "with all rows" if is_chosen else ""
    if row["weight"] is not None:  # not in reports of earlier versions
        share = f"{row['weight']:.0%} of the weight" if row["weight"] else ""
    return [
        tables.text(name, note=row["role"].replace("_", " ")),
        tables.text(share, note=splits if row["n_chosen"] else ""),
    ]
