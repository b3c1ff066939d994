"""``sibling audit``: the audit log of a service."""

import itertools
import sys
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sibling.client import Client
from sibling.client.client import DEFAULT_URL

audit = typer.Typer()

_COLUMNS: Final = ("created_at", "owner", "key_id", "operation", "object", "status", "code")
_COLUMNS_OF_REQUEST: Final = ("source", "request_id")
#: Line width if the output is a file or a pipe, so that no value is shortened.
_PIPE_WIDTH: Final = 1000
_out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


@audit.command(name="audit")
def show_audit(
    *,
    owner: Annotated[str | None, typer.Option(help="Only events of this owner.")] = None,
    key_id: Annotated[str | None, typer.Option(help="Only events of this API key.")] = None,
    operation: Annotated[
        str | None, typer.Option(help="Only this operation, such as delete_dataset.")
    ] = None,
    object_: Annotated[
        str | None, typer.Option("--object", help="Only this resource, such as /v1/jobs/job_1.")
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(help="Only events of this local time and later.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Only events before this local time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of events.")] = 100,
    url: Annotated[
        str, typer.Option("--url", envvar="SIBLING_URL", help="URL of the service.", metavar="URL")
    ] = DEFAULT_URL,
) -> None:
    """List requests and commands that changed something or were refused, newest first."""
    table = Table(*_COLUMNS, *_COLUMNS_OF_REQUEST, box=None)
    with Client(url) as client:
        events = client.audit(
            owner=owner,
            key_id=key_id,
            operation=operation,
            object=object_,
            since=None if since is None else since.astimezone(),
            until=None if until is None else until.astimezone(),
        )
        for event in itertools.islice(events, limit):
            values = (event[name] for name in (*_COLUMNS, *_COLUMNS_OF_REQUEST))
            table.add_row(*(Text("" if value is None else str(value)) for value in values))
    _out.print(table)
