"""The classes Client and AsyncClient."""

from datetime import datetime
from types import TracebackType
from typing import Any, Self

from sibling.client.datasets import DatasetMethods
from sibling.client.errors import json_of
from sibling.client.http import connect, path
from sibling.client.keys import KeyMethods
from sibling.client.models import ModelMethods
from sibling.client.modes import Async, Collection, Listing, Mode, Sync, remote_method
from sibling.client.monitor import MonitorMethods
from sibling.client.renewal import RenewalMethods
from sibling.client.training import JobMethods
from sibling.client.transport import AsyncTransport, BlockingTransport
from sibling.client.webhooks import WebhookMethods


class ServiceMethods(
    DatasetMethods[Mode],
    JobMethods[Mode],
    ModelMethods[Mode],
    MonitorMethods[Mode],
    RenewalMethods[Mode],
    KeyMethods[Mode],
    WebhookMethods[Mode],
):
    """All methods of the client, in either mode."""

    @remote_method
    async def health(self) -> dict[str, Any]:
        """Return the readiness of the service.

        Raises
        ------
        ServiceError
            The service is not ready; the error has the reason.
        """
        response = await self._http.send("GET", "/v2/health/ready", retry=False)
        body: dict[str, Any] = json_of(response)
        return body

    @remote_method
    async def server(self) -> dict[str, Any]:
        """Return name, version and protocol extensions of the service."""
        body: dict[str, Any] = await self._http.get("/v2")
        return body

    @remote_method
    async def metrics(self) -> str:
        """Return the metrics of the service, in the text format of Prometheus."""
        return (await self._http.send("GET", "/metrics")).text

    @remote_method
    async def statistics(self) -> dict[str, Any]:
        """Return numbers and durations of the requests to all models since the start."""
        body: dict[str, Any] = await self._http.get("/v2/models/stats")
        return body

    @property
    def algorithms(self) -> Collection[Mode, dict[str, Any]]:
        """The algorithms with the JSON Schema of their parameters; indexed by name."""
        return Collection(self._http, "/v1/algorithms", self._algorithm)

    @remote_method
    async def algorithm(self, name: str) -> dict[str, Any]:
        """Return one algorithm with the JSON Schema of its parameters."""
        return await self._algorithm(name)

    def audit(
        self,
        *,
        owner: str | None = None,
        key_id: str | None = None,
        operation: str | None = None,
        object: str | None = None,  # noqa: A002 - name of the field
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Listing[Mode]:
        """Return audit events, newest first: requests and commands that changed something.

        Parameters
        ----------
        owner, key_id, operation, object
            Return only events with this value. An object is the path of a resource, such as
            ``/v1/jobs/job_1``.
        since, until
            Return only events of this time and later, and before this time; with time zone.

        Raises
        ------
        ServiceError
            When they are iterated: the API key has neither the scope ``audit:read`` nor ``admin``.
        """
        filters = {"owner": owner, "key_id": key_id, "operation": operation, "object": object}
        times = {"since": since, "until": until}
        filters |= {name: None if t is None else t.isoformat() for name, t in times.items()}
        query = {name: value for name, value in filters.items() if value is not None}
        return Listing(self._http, lambda: self._http.pages("/v1/audit", **query))

    async def _algorithm(self, name: str) -> dict[str, Any]:
        body: dict[str, Any] = await self._http.get(path("v1", "algorithms", name))
        return body


class Client(ServiceMethods[Sync]):
    """Client of a Sibling service.

    A pickled client has the URL, but not the API key: a copy in another process, such as a worker
    of joblib, takes ``SIBLING_API_KEY`` of its environment.

    Parameters
    ----------
    base_url
        URL of the service. Default: the environment variable ``SIBLING_URL``, or
        ``http://127.0.0.1:8000``.
    api_key
        API key, if the service requires one. Default: the environment variable
        ``SIBLING_API_KEY``.
    timeout_s
        Timeout of one request.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000")  # doctest: +SKIP
    >>> dataset = client.upload({"a": Xa, "b": Xb}, name="pair")  # doctest: +SKIP
    >>> model = client.train(dataset, "rmt-pca", k=2).wait()  # doctest: +SKIP
    >>> model.transform(X, task="a")  # doctest: +SKIP
    """

    def __init__(
        self, base_url: str | None = None, *, api_key: str | None = None, timeout_s: float = 60
    ) -> None:
        super().__init__(connect(BlockingTransport, base_url, api_key, timeout_s))

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        """Return the same client, so that copies of its users share the connections."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.run(self._http.close())


class AsyncClient(ServiceMethods[Async]):
    """Client of a Sibling service for programs with asyncio.

    It has the methods of :class:`Client`; await them, and iterate with ``async for``.

    Parameters
    ----------
    base_url, api_key, timeout_s
        As for :class:`Client`.

    Examples
    --------
    >>> async with AsyncClient() as client:  # doctest: +SKIP
    ...     jobs = [await client.train(dataset, name) for name in ("mtfl", "ridge")]
    ...     models = await asyncio.gather(*(job.wait() for job in jobs))
    """

    def __init__(
        self, base_url: str | None = None, *, api_key: str | None = None, timeout_s: float = 60
    ) -> None:
        super().__init__(connect(AsyncTransport, base_url, api_key, timeout_s))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
