"""``sibling audit``: the audit log of a service."""

import itertools
from datetime import datetime
from typing import Annotated, Final

import typer

from sibling import Client
from sibling.client.environment import DEFAULT_URL
from sibling.commands.app import App
from sibling.commands.names import Url
from sibling.commands.output import print_list

audit = App()

_COLUMNS: Final = (
    *("created_at", "owner", "key_id", "operation", "object", "status", "code"),
    *("source", "request_id"),
)


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
    url: Url = DEFAULT_URL,
) -> None:
    """List requests and commands that changed something or were refused, newest first."""
    with Client(url) as client:
        events = client.audit(
            owner=owner,
            key_id=key_id,
            operation=operation,
            object=object_,
            since=None if since is None else since.astimezone(),
            until=None if until is None else until.astimezone(),
        )
        print_list(itertools.islice(events, limit), *_COLUMNS)
