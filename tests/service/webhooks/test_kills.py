"""Servers that are killed while they send: every event arrives, in order."""

import os
import signal
import threading

import httpx
import pytest
import sqlalchemy as sa

from service.jobs.queue.lease import LEASE_NAME
from service.processes.lifetime import ProcessIdentity
from service.storage.tables import DeliveryRow, LeaseRow
from service.webhooks import events
from sibling import Client

pytestmark = [pytest.mark.slow, pytest.mark.sql]  # servers of their own

ALLOWED = {"SIBLING_WEBHOOK_HOSTS": "localhost", "SIBLING_WEBHOOK_NETWORKS": "127.0.0.0/8,::1/128"}
N_KILLS, N_EVENTS, N_SOURCES = 4, 60, 3


def states(database):
    with database.read() as session:
        rows = session.scalars(sa.select(DeliveryRow).order_by(DeliveryRow.id)).all()
    return [row.state for row in rows]


def test_an_event_that_was_being_sent_when_the_server_was_killed_is_sent_again(
    start_service, receiver, wait_until
):
    service = start_service(**ALLOWED)
    with Client(service.url) as client:
        webhook = client.create_webhook(receiver.url)
        answered = threading.Event()

        def kill(_):
            service.process.kill()
            answered.wait(60)
            return 204

        receiver.respond = kill
        httpx.post(f"{service.url}/v1/webhooks/{webhook['id']}:test", timeout=240)
        wait_until(lambda: service.process.poll() is not None)
    with service.open_database() as database:
        assert states(database) == ["pending"]
        answered.set()
        receiver.respond = lambda _: 204
        start_service(data_dir=service.data_dir, **ALLOWED)
        wait_until(lambda: states(database) == ["delivered"])
    first, again = receiver.received
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert first.body == again.body
    assert again.is_signed(webhook["secret"])


def test_an_event_of_a_job_whose_server_was_killed_is_sent_by_the_next(
    start_service, start_receiver, receiver, wait_until
):
    """The worker ends the job and stores the event, while no server runs."""
    service = start_service(**ALLOWED)
    with Client(service.url) as client:
        client.create_webhook(receiver.url)
        rows = {name: [[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]] for name in "ab"}
        job = client.train(client.upload(rows, name="d"), "pca", model="m", k=1)
    service.process.kill()
    service.process.wait()
    start_service(data_dir=service.data_dir, **ALLOWED)
    wait_until(lambda: len(receiver.received) >= 2)
    kinds = {event["type"]: event for event in receiver.events()}
    assert set(kinds) == {"job.succeeded", "version.created"}
    assert kinds["job.succeeded"]["data"]["id"] == job.id
    assert start_receiver


@pytest.mark.timeout(600)
def test_three_processes_send_every_event_in_order_though_the_sender_is_killed(
    start_service, receiver, wait_until
):
    service = start_service(SIBLING_WORKERS=3, SIBLING_LEASE_TIMEOUT_S=2, **ALLOWED)
    with Client(service.url) as client:
        webhook = client.create_webhook(receiver.url)

    def holder():
        with database.read() as session:
            row = session.get(LeaseRow, LEASE_NAME)
        return None if row is None else ProcessIdentity.from_text(row.holder).pid

    killed = set()

    def respond(request):
        """Kill the sender now and then, before it has the response."""
        if request.event["data"]["i"] % (N_EVENTS // N_KILLS) == 7 and len(killed) < N_KILLS:
            pid = holder()
            if pid is not None and pid not in killed:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
        return 204

    receiver.respond = respond
    with service.open_database() as database:
        for i in range(N_EVENTS):
            source = f"/v1/models/m{i % N_SOURCES}"
            owner = "local"
            with database.write() as session:
                events.emit(
                    session, owner, "alarm.raised", source=source, subject=source, data={"i": i}
                )
        wait_until(lambda: states(database) == ["delivered"] * N_EVENTS)
    assert len(killed) == N_KILLS
    assert all(request.is_signed(webhook["secret"]) for request in receiver.received)
    first_ids, order = set(), []
    for event in receiver.events():
        if event["id"] not in first_ids:
            first_ids.add(event["id"])
            order.append((event["source"], event["data"]["i"]))
    assert len(order) == N_EVENTS
    for k in range(N_SOURCES):
        of_source = [i for source, i in order if source == f"/v1/models/m{k}"]
        assert of_source == list(range(k, N_EVENTS, N_SOURCES))
    assert len(receiver.received) - N_EVENTS <= N_KILLS
