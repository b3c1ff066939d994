"""``sibling models renewal``: train again by a rule, promote a challenger, put the old one back."""

from typing import Annotated, Final

import typer

from sibling import Client
from sibling.client.environment import DEFAULT_URL
from sibling.client.renewal import Bounds, Promotion
from sibling.commands.app import App
from sibling.commands.monitors import Alias
from sibling.commands.names import Url, suggesting_model
from sibling.commands.output import print_fields, print_result

renewals = App(help="Train a model in use again by a rule, and replace it by a better version.")

Reason = Annotated[str | None, typer.Option(help="Text for the audit log.")]
_FIELDS: Final = (
    *("model", "alias", "rule", "state", "reason", "n_new_targets", "due_at", "alarm_since"),
    *("job_id", "trial", "previous_version", "updated_at"),
)


@renewals.command(name="set")
def set_renewal(
    alias: Alias,
    *,
    rows: Annotated[
        int | None, typer.Option(help="Train when so many rows have got their target.")
    ] = None,
    alarm_days: Annotated[
        int | None, typer.Option(help="Train when an alarm has held for so many days.")
    ] = None,
    cron: Annotated[
        str | None, typer.Option(help='Train at these times (UTC), such as "0 3 * * 1".')
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(help="Add at most so many rows, the newest. Default: 20000.")
    ] = None,
    max_age_days: Annotated[int | None, typer.Option(help="Add only rows of so many days.")] = None,
    bounds: Annotated[
        Bounds | None,
        typer.Option(
            help="Whether rows of the model's dataset leave for new ones (all). Default: new."
        ),
    ] = None,
    promote: Annotated[
        Promotion | None, typer.Option(help="Who promotes a challenger. Default: test.")
    ] = None,
    label_days: Annotated[
        int | None, typer.Option(help="Days until most targets are known. Default: 1.")
    ] = None,
    trial_days: Annotated[
        int | None, typer.Option(help="Days after which a challenger leaves. Default: 60.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Have the model of an alias trained again by a rule; create or change the renewal."""
    with Client(url) as client, suggesting_model(client, alias):
        renewal = client.set_renewal(
            alias,
            rows=rows,
            alarm_days=alarm_days,
            cron=cron,
            max_rows=max_rows,
            max_age_days=max_age_days,
            bounds=bounds,
            promote=promote,
            label_days=label_days,
            trial_days=trial_days,
        )
        print_fields(renewal.info, *_FIELDS)


@renewals.command()
def show(alias: Alias, url: Url = DEFAULT_URL) -> None:
    """Show the rule, what happened last and why, and what is known of the challenger."""
    with Client(url) as client, suggesting_model(client, alias):
        print_fields(client.renewal(alias).info, *_FIELDS)


@renewals.command()
def promote(alias: Alias, *, reason: Reason = None, url: Url = DEFAULT_URL) -> None:
    """Move the alias to the challenger, whatever the test says."""
    with Client(url) as client, suggesting_model(client, alias):
        print_fields(client.renewal(alias).promote(reason), *_FIELDS)


@renewals.command(name="put-back")
def put_back(alias: Alias, *, reason: Reason = None, url: Url = DEFAULT_URL) -> None:
    """Move the alias to the version that it had before the last promotion."""
    with Client(url) as client, suggesting_model(client, alias):
        print_fields(client.renewal(alias).put_back(reason), *_FIELDS)


@renewals.command()
def delete(alias: Alias, url: Url = DEFAULT_URL) -> None:
    """End the renewal; versions and the alias stay as they are."""
    with Client(url) as client, suggesting_model(client, alias):
        client.renewal(alias).delete()
    print_result(f"the renewal of {alias} is deleted", alias=alias)
