"""The thread that sends events to webhooks, in the process that dispatches jobs."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Final

import httpx
from sqlalchemy.exc import SQLAlchemyError

from service.observability.logs import log
from service.settings import Settings
from service.storage.background import BackgroundThread
from service.storage.database import Database, now, retry_while_unavailable
from service.webhooks import store
from service.webhooks.events import TEST
from service.webhooks.signatures import signed_headers
from service.webhooks.store import Delivery, Outcome
from service.webhooks.targets import Refused, Targets

#: Time from each attempt to the next, as Standard Webhooks proposes; then a delivery has failed.
DELAYS_S: Final = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: Time limit of an attempt, from the name of the host to the status of the response.
TIMEOUT_S: Final = 10.0
#: Number of webhooks that are sent to at the same time.
MAX_SENDING: Final = 32
#: Threads that look up names of hosts. The system may try a name for so many attempts' time.
_MAX_LOOKUPS: Final = 4 * MAX_SENDING
_TICK_S: Final = 0.5
#: How long the outcome of an attempt waits for the database, before the event is sent again.
_RECORD_TIMEOUT_S: Final = 60
#: How long the end of the service waits for attempts that have begun.
_STOP_S: Final = 2.0
_MAX_ERROR_LENGTH: Final = 500
_HEADERS: Final = {
    "Content-Type": "application/cloudevents+json; charset=utf-8",
    "User-Agent": f"sibling/{version('sibling')}",
}


class Sender(BackgroundThread):
    """A thread that sends deliveries that are due, one at a time to each webhook.

    Parameters
    ----------
    is_leader
        Returns whether this process holds the dispatcher's lease. Two processes that send at the
        same time, as after a pause of one of them, can send an event twice.
    count
        Counts attempts by result: ``delivered`` or ``failed``.
    clock
        Returns the time by which deliveries are due.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        is_leader: Callable[[], bool],
        count: Callable[[str], None],
        clock: Callable[[], datetime] = now,
    ) -> None:
        super().__init__("webhooks", is_leader=is_leader)
        self._database = database
        self._targets = Targets(settings)
        self._count = count
        self._clock = clock
        # HTTPS trusts the authorities of SSL_CERT_FILE; proxies of the environment are not used
        self._context = httpx.create_ssl_context()
        self._sessions = ThreadPoolExecutor(1, thread_name_prefix="webhooks")

    def _run(self) -> None:
        with self._sessions:
            asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_MAX_LOOKUPS))
        sending: dict[asyncio.Task[None], str] = {}
        while not self._end.is_set():
            if self._is_leader() and len(sending) < MAX_SENDING:
                for delivery in await self._due(set(sending.values()), MAX_SENDING - len(sending)):
                    sending[asyncio.create_task(self._deliver(delivery))] = delivery.webhook_id
            if not sending:
                await asyncio.sleep(_TICK_S)
                continue
            first = asyncio.FIRST_COMPLETED
            done, _ = await asyncio.wait(sending, timeout=_TICK_S, return_when=first)
            for task in done:
                del sending[task]
                if task.exception():  # the delivery is still due
                    log.error("webhook.error", exc_info=task.exception())
                    await asyncio.sleep(_TICK_S)
        if sending:
            await asyncio.wait(sending, timeout=_STOP_S)

    async def _due(self, without: set[str], limit: int) -> list[Delivery]:
        def read() -> list[Delivery]:
            with self._database.read() as session:
                return store.due(session, self._clock(), without=without, limit=limit)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._sessions, read)
        except SQLAlchemyError as error:  # the database is unavailable: retry
            log.warning("webhooks.database_unavailable", error=type(error).__name__)
            return []

    async def _deliver(self, delivery: Delivery) -> None:
        """Send a delivery once, and store the outcome."""
        attempted_at = self._clock()
        outcome = await self._attempt(delivery, int(attempted_at.timestamp()))
        await asyncio.get_running_loop().run_in_executor(
            self._sessions,
            lambda: retry_while_unavailable(
                lambda _: self._record(delivery, outcome, attempted_at),
                _RECORD_TIMEOUT_S,
                is_stopping=self._end.is_set,
            ),
        )
        result = "failed" if outcome.error else "delivered"
        self._count(result)
        ids = {"webhook_id": delivery.webhook_id, "event_id": delivery.event_id}
        log.info(f"webhook.{result}", **ids, attempt=delivery.n_attempts + 1, status=outcome.status)

    def _record(self, delivery: Delivery, outcome: Outcome, attempted_at: datetime) -> None:
        due_at = None
        if outcome.error and delivery.n_attempts < len(DELAYS_S) and delivery.type != TEST:
            due_at = self._clock() + timedelta(seconds=DELAYS_S[delivery.n_attempts])
        with self._database.write() as session:
            store.record(session, delivery, outcome, attempted_at=attempted_at, due_at=due_at)

    async def _attempt(self, delivery: Delivery, timestamp: int) -> Outcome:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status = await self._post(delivery, timestamp)
        except TimeoutError:
            return Outcome(None, f"there was no response within {TIMEOUT_S:g} seconds")
        except (Refused, OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
            return Outcome(None, (str(error) or type(error).__name__)[:_MAX_ERROR_LENGTH])
        if httpx.codes.is_redirect(status):
            return Outcome(status, f"the response is a redirect ({status}), which is not followed")
        refusal = f"the response has the status {status}"
        return Outcome(status, None if httpx.codes.is_success(status) else refusal)

    async def _post(self, delivery: Delivery, timestamp: int) -> int:
        """Send a delivery to a checked address of its host; return the status of the response."""
        url, body = httpx.URL(delivery.url), delivery.body.encode()
        addresses = await self._targets.addresses(url)
        address = addresses[delivery.n_attempts % len(addresses)]
        signed = signed_headers(delivery.secret, delivery.event_id, timestamp, body)
        # a client of its own: a connection is never used for another host at the same address
        async with (
            httpx.AsyncClient(verify=self._context, trust_env=False, timeout=None) as client,  # noqa: S113
            client.stream(
                "POST",
                url.copy_with(host=address),
                content=body,
                headers={**_HEADERS, **signed, "Host": url.netloc.decode()},
                extensions={"sni_hostname": url.raw_host.decode().removesuffix(".")},
            ) as response,
        ):
            return response.status_code
