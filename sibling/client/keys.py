"""API keys of the service."""

from collections.abc import Iterable
from typing import Any

from sibling.client.errors import json_of
from sibling.client.http import path
from sibling.client.modes import Collection, Listing, Mode, Remote, remote_method


class KeyMethods(Remote[Mode]):
    """Methods of the client for API keys and quotas."""

    @property
    def keys(self) -> Collection[Mode, dict[str, Any]]:
        """The keys without their secrets, newest first; indexed by id.

        With the scope ``operator``, ``client.keys(owner="*")`` has the keys of all owners.
        """
        return Collection(self._http, "/v1/keys", self._key)

    def quotas(self, *, owner: str | None = None) -> Listing[Mode]:
        """Return what an owner has and may have: keys, jobs, datasets, models and bytes.

        Parameters
        ----------
        owner
            Default: that of this client. ``"*"`` for all owners, with the scope ``operator``.
        """
        query = {} if owner is None else {"owner": owner}
        return Listing(self._http, lambda: self._http.pages("/v1/quotas", **query))

    @remote_method
    async def create_key(
        self,
        scopes: Iterable[str],
        *,
        name: str | None = None,
        days: int | None = None,
        owner: str | None = None,
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
        owner
            Owner of what the key makes. Another one than that of this client, the default, needs
            the scope ``operator``.

        Raises
        ------
        ServiceError
            The key of this client does not have a scope (``forbidden``), or the service needs no
            keys (``wrong-state``).
        """
        body = {"scopes": list(scopes), "name": name, "days": days, "owner": owner}
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
