"""``sibling models monitor``: keep rows of calls, send their targets, see how a model does now."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sibling import Client
from sibling.client.environment import DEFAULT_URL
from sibling.commands.app import App
from sibling.commands.names import Url, suggesting_model
from sibling.commands.output import (
    format_value,
    print_fields,
    print_json,
    print_note,
    print_result,
    print_table,
    print_text,
)

monitors = App(help="Watch a model in use: keep rows, send their targets, report how it does now.")

Alias = Annotated[str, typer.Argument(help="NAME@ALIAS.", metavar="NAME@ALIAS")]
_FIELDS: Final = (
    *("model", "alias", "share", "days", "never_keep"),
    *("n_rows", "n_targets", "n_bytes", "n_dropped", "created_at"),
)
_MAX_COLUMNS: Final = 10


@monitors.command(name="set")
def set_monitor(
    alias: Alias,
    *,
    share: Annotated[float, typer.Option(help="Share of the rows to keep, 0 to 1.")] = 1.0,
    days: Annotated[int, typer.Option(help="Days to keep rows and targets.")] = 90,
    never_keep: Annotated[
        list[str] | None, typer.Option(help="Column whose values are never kept. Repeatable.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Keep rows that the version of an alias predicts; create or change the monitor."""
    with Client(url) as client, suggesting_model(client, alias):
        monitor = client.set_monitor(alias, share=share, days=days, never_keep=never_keep or ())
        print_fields(monitor.info, *_FIELDS)


@monitors.command()
def show(alias: Alias, url: Url = DEFAULT_URL) -> None:
    """Show what a monitor keeps, and how much it has kept."""
    with Client(url) as client, suggesting_model(client, alias):
        print_fields(client.monitor(alias).info, *_FIELDS)


@monitors.command()
def feedback(
    alias: Alias,
    file: Annotated[
        Path,
        typer.Argument(
            help="Table with the target and row_id; or, in its place, the columns of the model."
        ),
    ],
    url: Url = DEFAULT_URL,
) -> None:
    """Send the true targets of rows: late, again and corrected ones are normal."""
    with Client(url) as client, suggesting_model(client, alias):
        answer = client.monitor(alias).feedback(file)
    print_fields(answer, *answer)
    if answer["n_unknown"]:
        print_note(
            f"note: no row is kept of {answer['n_unknown']} ids: targets count once a row with "
            "the id is predicted; or send the columns of the model, too"
        )


@monitors.command()
def report(
    alias: Alias,
    *,
    version: Annotated[
        int | None, typer.Option(help="Version. Default: that of the alias.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Report how a model does now: errors against those promised, and columns that have moved."""
    with Client(url) as client, suggesting_model(client, alias):
        found = client.monitor(alias).report(version)
    if print_json(found):
        return
    for sentence in found["sentences"]:
        print_text(sentence)
    states = [found["overall"], *found["tasks"]]
    rows = [_row(state) for state in states if state["n_rows"]]
    if rows:
        header = ("task", "rows", "targets", "error", "95 % interval", "promised", "alarm since")
        print_table(rows, header)
    columns = [
        (c["task"] or "all", c["column"], c["stability_index"], c["alarm_since"])
        for c in found["columns"][:_MAX_COLUMNS]
    ]
    if columns:
        print_table(columns, ("task", "column", "stability index", "alarm since"))


@monitors.command(name="delete-rows")
def delete_rows(
    alias: Alias,
    prefix: Annotated[str, typer.Argument(help="How the ids of the rows begin.")],
    url: Url = DEFAULT_URL,
) -> None:
    """Delete the rows whose ids begin with a text, such as those of one person."""
    with Client(url) as client, suggesting_model(client, alias):
        n_deleted = client.monitor(alias).delete_rows(prefix)
    print_result(f"{n_deleted} rows and targets are deleted", n_deleted=n_deleted)


@monitors.command()
def delete(alias: Alias, url: Url = DEFAULT_URL) -> None:
    """End the record of an alias, and delete its rows and targets."""
    with Client(url) as client, suggesting_model(client, alias):
        client.monitor(alias).delete()
    print_result(f"the monitor of {alias} is deleted", alias=alias)


def _row(state: dict[str, Any]) -> tuple[Any, ...]:
    error = state["error"] or dict.fromkeys(("value", "low", "high", "promised", "alarm_since"))
    interval = f"{format_value(error['low'])} to {format_value(error['high'])}"
    counts = state["n_rows"], state["n_targets"]
    values = error["value"], interval, error["promised"], error["alarm_since"]
    return (state["task"] or "all", *counts, *values)
