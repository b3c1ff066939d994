"""Webhooks of the service: addresses that get events."""

import time
from collections.abc import Iterable
from typing import Any, Final

from sibling.client.errors import json_of
from sibling.client.http import path
from sibling.client.modes import Collection, Listing, Mode, Remote, remote_method

_POLL_S: Final = 0.3


class WebhookMethods(Remote[Mode]):
    """Methods of the client for the webhooks of its owner."""

    @property
    def webhooks(self) -> Collection[Mode, dict[str, Any]]:
        """The webhooks without their secrets, newest first; indexed by id."""
        return Collection(self._http, "/v1/webhooks", self._webhook)

    @remote_method
    async def create_webhook(
        self, url: str, types: Iterable[str] | None = None, *, name: str | None = None
    ) -> dict[str, Any]:
        """Have events sent to an address; return the webhook with its secret, shown only once.

        Parameters
        ----------
        url
            Address that gets the events, of a host that the operator of the service allows.
        types
            Types of events, such as ``job.failed``. Default: all.
        name
            Purpose of the webhook.

        Raises
        ------
        ServiceError
            The operator allows no webhooks (``wrong-state``), or not this host
            (``invalid-request``).
        """
        body = {"url": url, "types": None if types is None else list(types), "name": name}
        # sent once: another attempt would create another one, whose secret nobody sees
        response = await self._http.send("POST", "/v1/webhooks", json=body, retry=False)
        created: dict[str, Any] = json_of(response)
        return created

    @remote_method
    async def delete_webhook(self, webhook_id: str) -> None:
        """Delete a webhook, its pending deliveries and its log."""
        await self._http.send("DELETE", path("v1", "webhooks", webhook_id))

    def webhook_deliveries(self, webhook_id: str, *, state: str | None = None) -> Listing[Mode]:
        """Return the events that were sent to a webhook, or will be, newest first.

        Parameters
        ----------
        state
            Only those that are ``pending``, ``delivered`` or ``failed``.
        """
        url = path("v1", "webhooks", webhook_id, "deliveries")
        query = {} if state is None else {"state": state}
        return Listing(self._http, lambda: self._http.pages(url, **query))

    @remote_method
    async def test_webhook(self, webhook_id: str, *, timeout_s: float = 30) -> dict[str, Any]:
        """Send an event of the type ``webhook.test``, and return its delivery with the outcome.

        Parameters
        ----------
        timeout_s
            Time after which the delivery is returned as it is, although it is pending.
        """
        deadline = time.monotonic() + timeout_s
        url = path("v1", "webhooks", webhook_id)
        delivery: dict[str, Any] = json_of(await self._http.send("POST", f"{url}:test"))
        while delivery["state"] == "pending" and time.monotonic() < deadline:
            await self._http.sleep(_POLL_S)
            delivery = await self._http.get(f"{url}/deliveries/{delivery['id']}")
        return delivery

    async def _webhook(self, webhook_id: str) -> dict[str, Any]:
        body: dict[str, Any] = await self._http.get(path("v1", "webhooks", webhook_id))
        return body
