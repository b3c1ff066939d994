"""Renewals of aliases: a rule that trains again, a challenger, promotion, and the way back."""

from typing import Any, Literal, TypeAlias

from sibling.client.http import Http, path
from sibling.client.modes import Mode, Remote, remote_method
from sibling.client.monitor import split_alias

#: Who promotes a challenger: a test that may be looked at every day, or only a person.
Promotion: TypeAlias = Literal["test", "hand"]
#: Rows that the bounds of a renewal are of: those that are added, or all.
Bounds: TypeAlias = Literal["new", "all"]


class RemoteRenewal(Remote[Mode]):
    """A renewal of an alias in the service.

    Attributes
    ----------
    info
        Its rule, state, last reason and trial, as of its last request.
    """

    def __init__(self, http: Http, info: dict[str, Any]) -> None:
        super().__init__(http)
        self.info = info
        self._path = renewal_path(info["model"], info["alias"])

    def __repr__(self) -> str:
        return f"RemoteRenewal('{self.info['model']}@{self.info['alias']}')"

    @remote_method
    async def refresh(self) -> dict[str, Any]:
        """Return how far the renewal is, which is :attr:`info` from then on."""
        self.info = await self._http.get(self._path)
        return self.info

    @remote_method
    async def promote(self, reason: str | None = None) -> dict[str, Any]:
        """Move the alias to the challenger, whatever the test says.

        Parameters
        ----------
        reason
            Text for the audit log.
        """
        return await self._decide("promote", reason)

    @remote_method
    async def put_back(self, reason: str | None = None) -> dict[str, Any]:
        """Move the alias to the version that it had before the last promotion.

        Parameters
        ----------
        reason
            Text for the audit log.
        """
        return await self._decide("put-back", reason)

    @remote_method
    async def delete(self) -> None:
        """End the renewal; versions and the alias stay as they are."""
        await self._http.send("DELETE", self._path)

    async def _decide(self, what: str, reason: str | None) -> dict[str, Any]:
        body = {} if reason is None else {"reason": reason}
        response = await self._http.send("POST", f"{self._path}:{what}", json=body)
        self.info = response.json()
        return self.info


class RenewalMethods(Remote[Mode]):
    """Methods of the client for renewals."""

    @remote_method
    async def renewal(self, reference: str) -> RemoteRenewal[Mode]:
        """Return the renewal of an alias, given as NAME@ALIAS.

        Raises
        ------
        ServiceError
            The alias has none (``not-found``).
        """
        info: dict[str, Any] = await self._http.get(renewal_path(*split_alias(reference)))
        return RemoteRenewal(self._http, info)

    @remote_method
    async def set_renewal(
        self,
        reference: str,
        *,
        rows: int | None = None,
        alarm_days: int | None = None,
        cron: str | None = None,
        max_rows: int | None = None,
        max_age_days: int | None = None,
        bounds: Bounds | None = None,
        promote: Promotion | None = None,
        label_days: int | None = None,
        trial_days: int | None = None,
    ) -> RemoteRenewal[Mode]:
        """Have the model of an alias trained again by a rule; create or change its renewal.

        The alias needs a monitor, whose labelled rows are added to the dataset of the model.

        Parameters
        ----------
        reference
            NAME@ALIAS.
        rows, alarm_days, cron
            Train when so many rows have got their target; when an alarm has held for so many days;
            or at times in cron form, in UTC. At least one of them.
        max_rows, max_age_days
            Add at most so many rows, the newest ones (default: 20,000), or rows of so many days.
        bounds
            Whether these are the bounds of the rows that are added (``new``, the default), or of
            ``all``: then rows of the dataset of the model leave for new ones.
        promote
            Whether a test promotes challengers (default), or only a person (``hand``).
        label_days
            Days after a call until most targets are known. Default: 1.
        trial_days
            Days after which a challenger leaves that was not promoted. Default: 60.
        """
        fields = {
            "rows": rows,
            "alarm_days": alarm_days,
            "cron": cron,
            "max_rows": max_rows,
            "max_age_days": max_age_days,
            "bounds": bounds,
            "promote": promote,
            "label_days": label_days,
            "trial_days": trial_days,
        }
        spec = {name: value for name, value in fields.items() if value is not None}
        response = await self._http.send("PUT", renewal_path(*split_alias(reference)), json=spec)
        return RemoteRenewal(self._http, response.json())


def renewal_path(name: str, alias: str) -> str:
    """Return the path of the renewal of an alias."""
    return path("v1", "models", name, "aliases", alias, "renewal")
