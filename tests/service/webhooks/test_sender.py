"""What the sender sends, how often and in which order, to a real server."""

import contextlib
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from service.retention.store import expire_deliveries
from service.settings import Settings
from service.storage.tables import DeliveryRow, WebhookRow, new_id
from service.webhooks import events, sender, store
from service.webhooks.sender import DELAYS_S, Sender
from service.webhooks.signatures import new_secret, signed_headers

pytestmark = pytest.mark.sql

INSIDE = {"webhook_hosts": "localhost", "webhook_networks": "127.0.0.0/8,::1/128"}
START = datetime(2027, 1, 1, tzinfo=UTC)


class World:
    """A database with webhooks, a clock that tests set, and senders."""

    def __init__(self, database, stack):
        self.database, self._stack = database, stack
        self.now = START
        self.counted = []

    def webhook(self, url, types=None, owner="ada"):
        row = WebhookRow(
            id=new_id("wh"),
            owner=owner,
            url=url,
            types=types,
            secret=new_secret(),
            created_at=START,
        )
        with self.database.write() as session:
            session.add(row)
        return row

    def emit(self, kind="job.succeeded", source="/v1/jobs/job_1", owner="ada", **data):
        with self.database.write() as session:
            last = session.scalar(sa.select(sa.func.max(DeliveryRow.id))) or 0
            events.emit(session, owner, kind, source=source, subject=source, data=data)
            values = {"due_at": self.now, "created_at": self.now}
            session.execute(sa.update(DeliveryRow).where(DeliveryRow.id > last).values(values))

    def start(self, is_leader=lambda: True, **settings):
        running = Sender(
            self.database,
            Settings(**(INSIDE | settings)),
            is_leader=is_leader,
            count=self.counted.append,
            clock=lambda: self.now,
        )
        self._stack.enter_context(running)

    def deliveries(self):
        with self.database.read() as session:
            return session.scalars(sa.select(DeliveryRow).order_by(DeliveryRow.id)).all()

    def states(self):
        return [row.state for row in self.deliveries()]

    def n_attempts(self):
        return [row.n_attempts for row in self.deliveries()]


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch):
    monkeypatch.setattr(sender, "_TICK_S", 0.02)


@pytest.fixture
def world(database):
    with contextlib.ExitStack() as stack:
        yield World(database, stack)


def test_an_event_is_sent_once_and_signed(world, receiver, wait_until):
    webhook = world.webhook(receiver.url)
    world.emit(answer="grüße")
    world.start()
    wait_until(lambda: world.states() == ["delivered"])
    (request,) = receiver.received
    assert request.path == "/hook"
    assert request.headers["host"] == f"localhost:{receiver.port}"
    assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert request.is_signed(webhook.secret)
    assert not request.is_signed(new_secret())
    assert request.headers["webhook-timestamp"] == str(int(START.timestamp()))
    (row,) = world.deliveries()
    assert (row.status, row.error, row.n_attempts, row.attempted_at) == (204, None, 1, START)
    assert request.headers["webhook-id"] == row.event_id == request.event["id"]
    event = request.event
    assert datetime.fromisoformat(event.pop("time")).tzinfo is not None
    assert event == {
        "specversion": "1.0",
        "id": row.event_id,
        "source": "/v1/jobs/job_1",
        "type": "job.succeeded",
        "subject": "/v1/jobs/job_1",
        "datacontenttype": "application/json",
        "data": {"answer": "grüße"},
    }
    wait_until(lambda: world.counted == ["delivered"])


def test_the_signature_is_that_of_the_specification():
    """The example of the reference libraries of Standard Webhooks."""
    secret, message = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    headers = signed_headers(secret, message, 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_failed_delivery_is_tried_again_later_and_later_until_it_has_failed(
    world, receiver, wait_until
):
    receiver.respond = lambda _: 500
    world.webhook(receiver.url)
    world.emit()
    world.start()
    for i, delay_s in enumerate(DELAYS_S, start=1):
        wait_until(lambda n=i: world.n_attempts() == [n])
        (row,) = world.deliveries()
        assert (row.status, row.state) == (500, "pending")
        assert row.due_at - world.now == timedelta(seconds=delay_s)
        world.now = row.due_at - timedelta(seconds=1)
        with world.database.read() as session:
            assert store.due(session, world.now, without=(), limit=9) == []
        world.now = row.due_at
    wait_until(lambda: world.states() == ["failed"])
    assert len(receiver.received) == len(DELAYS_S) + 1
    assert len({request.body for request in receiver.received}) == 1
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1
    assert len({request.headers["webhook-timestamp"] for request in receiver.received}) == 10
    assert world.now - START < timedelta(hours=76)


def test_events_of_one_source_wait_for_an_earlier_one_and_others_do_not(
    world, receiver, wait_until
):
    is_broken = True
    receiver.respond = lambda r: 500 if is_broken and r.event["source"] == "/v1/models/a" else 204
    world.webhook(receiver.url)
    for i in range(3):
        for source in ("/v1/models/a", "/v1/models/b"):
            world.emit("alias.moved", source, i=i)
    world.start()
    wait_until(lambda: world.states().count("delivered") == 3 and max(world.n_attempts()) == 1)
    assert sum(r.event["source"] == "/v1/models/a" for r in receiver.received) == 1
    is_broken = False
    world.now += timedelta(seconds=DELAYS_S[0])
    wait_until(lambda: set(world.states()) == {"delivered"})
    for source in ("/v1/models/a", "/v1/models/b"):
        order = [e["data"]["i"] for e in receiver.events() if e["source"] == source]
        assert order in ([0, 1, 2], [0, 0, 1, 2])


def test_a_receiver_that_hangs_delays_no_other_webhook(
    world, receiver, start_receiver, wait_until, monkeypatch
):
    monkeypatch.setattr(sender, "TIMEOUT_S", 3600.0)
    is_over, other = threading.Event(), start_receiver()
    receiver.respond = lambda _: is_over.wait(240) and 204
    for url in (receiver.url, other.url):
        world.webhook(url)
    for i in range(5):
        world.emit(i=i, source=f"/v1/jobs/job_{i}")
    world.start()
    wait_until(lambda: len(other.received) == 5)
    assert len(receiver.received) == 1  # one at a time
    is_over.set()
    wait_until(lambda: world.states() == ["delivered"] * 10)


def test_an_attempt_ends_in_time(world, receiver, wait_until, monkeypatch):
    monkeypatch.setattr(sender, "TIMEOUT_S", 0.5)
    is_over = threading.Event()
    receiver.respond = lambda _: is_over.wait(240) and 204
    world.webhook(receiver.url)
    world.emit()
    world.start()
    wait_until(lambda: world.n_attempts() == [1])
    is_over.set()
    (row,) = world.deliveries()
    expected = ("pending", None, "there was no response within 0.5 seconds")
    assert (row.state, row.status, row.error) == expected


def test_a_webhook_gets_the_types_of_its_owner_that_it_wants(world, receiver, wait_until):
    world.webhook(receiver.url, ["job.failed"])
    world.webhook(receiver.url, owner="bob")
    world.emit("job.succeeded")
    world.emit("job.failed")
    world.start()
    wait_until(lambda: world.states() == ["delivered"])
    assert [event["type"] for event in receiver.events()] == ["job.failed"]


def test_without_webhooks_an_event_is_one_query(world):
    statements = []
    listen = sa.event.listen
    listen(world.database.engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    with world.database.write() as session:
        events.emit(session, "ada", "job.failed", source="/v1/jobs/1", subject="/", data={})
    assert [text.split()[0] for text in statements if "webhook" in text] == ["SELECT"]
    assert world.deliveries() == []


def test_an_event_is_stored_with_its_change_or_not_at_all(world, receiver):
    world.webhook(receiver.url)

    def change():
        with world.database.write() as session:
            events.emit(session, "ada", "job.failed", source="/v1/jobs/1", subject="/", data={})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert world.deliveries() == []


def test_an_event_with_too_much_data_has_none(world, receiver, wait_until):
    world.webhook(receiver.url)
    world.emit(text="x" * events.MAX_DATA_BYTES)
    world.start()
    wait_until(lambda: world.states() == ["delivered"])
    assert "data" not in receiver.events()[0]
    assert len(receiver.received[0].body) < 1000


def test_a_redirect_is_not_followed(world, receiver, start_receiver, wait_until):
    target = start_receiver()
    receiver.respond = lambda _: (307, {"Location": target.url})
    world.webhook(receiver.url)
    world.emit()
    world.start()
    wait_until(lambda: world.n_attempts() == [1])
    (row,) = world.deliveries()
    assert (row.status, row.state) == (307, "pending")
    assert "redirect" in row.error
    assert target.received == []


def test_an_endless_response_is_not_read(world, receiver, wait_until):
    receiver.respond = lambda _: (200, {"Content-Length": str(10**12)})
    world.webhook(receiver.url)
    world.emit()
    world.start()
    wait_until(lambda: world.states() == ["delivered"])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"webhook_networks": ""}, "not public"),
        ({"webhook_hosts": "hooks.example.com"}, "SIBLING_WEBHOOK_HOSTS"),
    ],
)
def test_what_the_operator_no_longer_allows_gets_nothing(
    world, receiver, wait_until, settings, reason
):
    world.webhook(receiver.url)
    world.emit()
    world.start(**settings)
    wait_until(lambda: world.n_attempts() == [1])
    (row,) = world.deliveries()
    assert (row.status, row.state) == (None, "pending")
    assert reason in row.error
    assert receiver.received == []


def test_only_the_holder_of_the_lease_sends(world, receiver, wait_until):
    is_leader, asked = False, []
    world.webhook(receiver.url)
    world.emit()
    world.start(is_leader=lambda: asked.append(0) or is_leader)
    wait_until(lambda: len(asked) > 3)
    assert world.n_attempts() == [0]
    is_leader = True
    wait_until(lambda: world.states() == ["delivered"])


def test_a_process_that_has_lost_the_lease_overwrites_no_outcome(world, receiver):
    world.webhook(receiver.url)
    world.emit()
    with world.database.read() as session:
        (delivery,) = store.due(session, world.now, without=(), limit=9)
    times = {"attempted_at": world.now, "due_at": None}
    for outcome, is_stored in (
        (store.Outcome(204, None), True),
        (store.Outcome(500, "late"), False),
    ):
        with world.database.write() as session:
            assert store.record(session, delivery, outcome, **times) is is_stored
    assert world.states() == ["delivered"]


def test_a_test_event_is_tried_once(world, receiver, wait_until):
    receiver.respond = lambda _: 500
    webhook = world.webhook(receiver.url, ["job.failed"])
    with world.database.write() as session:
        events.emit_test(session, session.get_one(WebhookRow, webhook.id)).due_at = world.now
    world.start()
    wait_until(lambda: world.states() == ["failed"])
    assert [event["type"] for event in receiver.events()] == ["webhook.test"]


def test_an_outcome_waits_for_a_database_that_is_away(world, receiver, databases, wait_until):
    if world.database.is_sqlite:
        pytest.skip("a file is never away")
    world.webhook(receiver.url)
    errors = []
    sa.event.listen(world.database.engine, "handle_error", errors.append)
    with contextlib.ExitStack() as stack:

        def respond(_):
            stack.enter_context(databases.away(world.database.url))
            return 204

        receiver.respond = respond
        world.emit()
        world.start()
        wait_until(lambda: errors)
        assert [event["source"] for event in receiver.events()] == ["/v1/jobs/job_1"]
    wait_until(lambda: world.states() == ["delivered"])
    assert len(receiver.received) == 1


def test_a_deleted_webhook_gets_nothing_more(world, receiver):
    webhook = world.webhook(receiver.url)
    world.emit()
    with world.database.write() as session:
        store.delete(session, webhook.id)
    assert world.deliveries() == []
    world.emit()
    assert world.deliveries() == []


def test_only_old_deliveries_expire(world, receiver):
    world.webhook(receiver.url)
    for i in range(3):
        world.emit(i=i)
        world.now += timedelta(days=1)
    assert sum(expire_deliveries(world.database, START + timedelta(days=1))) == 1
    assert [row.created_at for row in world.deliveries()] == [
        START + timedelta(days=n) for n in (1, 2)
    ]


# --- HTTPS ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hooks.test", "other.test"])
def test_https_is_verified_by_name_at_the_checked_address(
    world, receiver, wait_until, monkeypatch, tmp_path, make_certificate, name
):
    certificate = make_certificate("hooks.test", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    names = []
    context.sni_callback = lambda _socket, asked, _context: names.append(asked)
    receiver.server.socket = context.wrap_socket(
        receiver.server.socket, server_side=True, do_handshake_on_connect=False
    )
    lookups = resolve(monkeypatch, name, "127.0.0.1")
    world.webhook(f"https://{name}:{receiver.port}/")
    world.emit()
    world.start(webhook_hosts="*.test")
    wait_until(lambda: world.n_attempts() == [1])
    (row,) = world.deliveries()
    assert (names, lookups) == ([name], [name])
    if name == "hooks.test":
        assert row.state == "delivered"
        assert receiver.received[0].headers["host"] == f"hooks.test:{receiver.port}"
    else:
        assert "CERTIFICATE_VERIFY_FAILED" in row.error
        assert receiver.received == []


def test_a_name_is_resolved_once_and_the_connection_goes_to_that_address(
    world, receiver, wait_until, monkeypatch
):
    """DNS rebinding: the second answer would be another address."""
    lookups = resolve(monkeypatch, "rebind.test", "127.0.0.1", "192.0.2.1")
    world.webhook(f"http://rebind.test:{receiver.port}/")
    world.emit()
    world.start(webhook_hosts="*")
    wait_until(lambda: world.states() == ["delivered"])
    assert lookups == ["rebind.test"]


def test_names_that_no_server_answers_for_hold_up_no_other_webhook(
    world, receiver, wait_until, monkeypatch
):
    answered, system = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        if host == "dead.test":
            answered.wait()
            raise socket.gaierror("no server answers")
        return system(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(sender, "TIMEOUT_S", 0.5)
    for i in range(33):  # more than the usual threads of a loop
        world.webhook(f"http://dead.test/{i}")
    world.emit()
    world.start(webhook_hosts="*")
    try:
        wait_until(lambda: world.n_attempts() == [1] * 33)
        world.webhook(receiver.url)
        world.emit()
        wait_until(lambda: "delivered" in world.states())
    finally:
        answered.set()


def resolve(monkeypatch, name, *addresses):
    """Have the resolver of the system answer for a name with one address after the other."""
    lookups, system = [], socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        if host != name:
            return system(host, *args, **kwargs)
        lookups.append(host)
        return system(addresses[min(len(lookups), len(addresses)) - 1], *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return lookups
