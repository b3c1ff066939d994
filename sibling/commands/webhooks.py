"""``sibling webhooks``: addresses that get events of jobs, models and aliases."""

import itertools
from typing import Annotated, Final, Literal

import typer

from sibling import Client
from sibling.client.environment import DEFAULT_URL
from sibling.commands.app import noun
from sibling.commands.names import Url
from sibling.commands.output import print_json, print_list, print_result, print_text

webhooks = noun("Have events sent to other programs.")

_COLUMNS: Final = ("id", "name", "url", "types", "created_at")
_DELIVERY: Final = (
    *("id", "created_at", "type", "subject", "state", "n_attempts", "status", "error", "due_at"),
)

WebhookId = Annotated[str, typer.Argument(help="Id of a webhook.")]


@webhooks.command(name="list")
def list_webhooks(*, url: Url = DEFAULT_URL) -> None:
    """List the webhooks without their secrets, newest first."""
    with Client(url) as client:
        print_list(client.webhooks, *_COLUMNS)


@webhooks.command()
def create(
    target: Annotated[str, typer.Argument(help="Address that gets the events.")],
    *,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only this type, such as job.failed; repeatable."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Purpose of the webhook, at most 200 characters.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Have events sent to an address, and print the secret of the signatures, shown only once."""
    with Client(url) as client:
        made = client.create_webhook(target, types or None, name=name)
    print_result(f"{made['id']}\n{made['secret']}", **made)


@webhooks.command()
def delete(webhook_id: WebhookId, *, url: Url = DEFAULT_URL) -> None:
    """Delete a webhook, its pending deliveries and its log."""
    with Client(url) as client:
        client.delete_webhook(webhook_id)
    print_result(f"webhook {webhook_id} is deleted", id=webhook_id)


@webhooks.command()
def deliveries(
    webhook_id: WebhookId,
    *,
    state: Annotated[
        Literal["pending", "delivered", "failed"] | None,
        typer.Option(help="Only deliveries in this state."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of deliveries.")] = 100,
    url: Url = DEFAULT_URL,
) -> None:
    """List the events that were sent to a webhook, or will be, newest first."""
    with Client(url) as client:
        listed = client.webhook_deliveries(webhook_id, state=state)
        print_list(itertools.islice(listed, limit), *_DELIVERY)


@webhooks.command(name="test")
def send_test(webhook_id: WebhookId, *, url: Url = DEFAULT_URL) -> None:
    """Send a test event to a webhook, and print whether it was accepted."""
    with Client(url) as client:
        delivery = client.test_webhook(webhook_id)
    if delivery["state"] != "delivered":
        raise OSError(f"the test event was not delivered: {delivery['error'] or 'still pending'}")
    if not print_json(delivery):
        print_text(f"the test event is delivered: status {delivery['status']}")
