"""API keys of the service."""

from collections.abc import Iterable
from typing import Any

from sibling.client.errors import json_of
from sibling.client.http import path
from sibling.client.modes import Collection, Mode, Remote, remote_method


class KeyMethods(Remote[Mode]):
    """Methods of the client for the API keys of its owner."""

    @property
    def keys(self) -> Collection[Mode, dict[str, Any]]:
        """The keys without their secrets, newest first; indexed by id."""
        return Collection(self._http, "/v1/keys", self._key)

    @remote_method
    async def create_key(
        self, scopes: Iterable[str], *, name: str | None = None, days: int | None = None
    ) -> dict[str, Any]:
        """Create a key, and return it with its secret, which cannot be read again.

        Parameters
        ----------
        scopes
            Scopes such as ``models:read``, all of which the key of this client must have.
        name
            Purpose of the key.
        days
            Days until it expires. Default: never; but no later than the key of this client.

        Raises
        ------
        ServiceError
            The key of this client does not have a scope (``forbidden``), or the service needs no
            keys (``wrong-state``).
        """
        body = {"scopes": list(scopes), "name": name, "days": days}
        # sent once: another attempt would create another key, whose secret nobody sees
        response = await self._http.send("POST", "/v1/keys", json=body, retry=False)
        created: dict[str, Any] = json_of(response)
        return created

    @remote_method
    async def revoke_key(self, key_id: str, *, descendants: bool = False) -> None:
        """Revoke a key and end its sessions; the service rejects it within seconds.

        Parameters
        ----------
        descendants
            Whether to revoke the keys that it created, and theirs, as well.
        """
        params = {"descendants": True} if descendants else {}
        await self._http.send("DELETE", path("v1", "keys", key_id), params=params)

    async def _key(self, key_id: str) -> dict[str, Any]:
        body: dict[str, Any] = await self._http.get(path("v1", "keys", key_id))
        return body
