"""Monitors are looked at once a day: alarms are events, and begin trainings."""

import json

import pytest
import sqlalchemy as sa

from service.storage.database import now
from service.storage.tables import DeliveryRow, MonitoredRow, MonitorRow, RenewalRow
from tests.service.renewal.conftest import ALIAS, DAY, MODEL, made_rows

pytestmark = pytest.mark.slow  # services of their own
ALLOWED = {"SIBLING_WEBHOOK_HOSTS": "localhost", "SIBLING_WEBHOOK_NETWORKS": "127.0.0.0/8,::1/128"}


def write(world, *statements):
    with world.service.open_database() as database, database.write() as session:
        for statement in statements:
            session.execute(statement)


def read(world, query):
    with world.service.open_database() as database, database.read() as session:
        return session.scalars(query).all()


def call_with_moved_prices(world):
    """Have rows come for 20 days whose prices are far from those of the training rows."""
    rows = made_rows(1, 40)
    world.call("moved", [{**row, "price": row["price"] + 3} for row in rows], days=20)
    write(world, sa.update(MonitorRow).values(created_at=now() - 30 * DAY))


def look_again(world):
    """Let a day pass since the last look; return what the next one has found."""
    of_alias = MonitorRow.alias == "production"
    seen = sa.select(MonitorRow.looked_at).where(of_alias)
    world.wait_until(lambda: read(world, seen) != [None])
    yesterday = now() - DAY
    write(world, sa.update(MonitorRow).values(looked_at=yesterday))
    world.wait_until(lambda: read(world, seen) != [yesterday])
    return read(world, sa.select(MonitorRow.alarm_since).where(of_alias))[0]


@pytest.mark.sql
def test_an_alarm_is_one_event_until_it_ends_though_another_report_fails(start_world):
    world = start_world(**ALLOWED)
    client = world.client
    call_with_moved_prices(world)
    client.model(MODEL, 1).set_alias("broken")
    client.set_monitor(f"{MODEL}@broken")
    broken = sa.select(MonitorRow.id).where(MonitorRow.alias == "broken").scalar_subquery()
    values = {"monitor_id": broken, "row_id": "b", "version": 1, "task": "a", "size_bytes": 3}
    write(world, sa.insert(MonitoredRow).values(**values, values=b"abc", created_at=now()))
    client.create_webhook("http://localhost:9/hook", ["alarm.raised"])
    of_rows = sa.update(MonitoredRow).where(MonitoredRow.row_id.startswith("moved-"))

    def events():
        return [json.loads(body) for body in read(world, sa.select(DeliveryRow.body))]

    for _ in range(2):
        assert look_again(world) is not None
        (event,) = events()
    assert (event["type"], event["subject"]) == (
        "alarm.raised",
        f"/v1/models/{MODEL}/aliases/production",
    )
    assert (event["data"]["model"], event["data"]["alias"]) == (MODEL, "production")
    assert any("price" in sentence for sentence in event["data"]["sentences"])
    of_alias = sa.update(MonitorRow).where(MonitorRow.alias == "production")
    since = look_again(world)
    write(world, of_rows.values(version=2))  # as if they were gone
    assert look_again(world) == since
    assert "is no longer seen" in client.monitor(ALIAS).report()["sentences"][-1]
    write(world, of_rows.values(version=1))
    assert look_again(world) == since
    assert len(events()) == 1
    write(world, of_rows.values(version=2), of_alias.values(alarm_since=now() - 90 * DAY))
    assert look_again(world) is None
    write(world, of_rows.values(version=1))
    assert look_again(world) is not None
    assert [e["subject"] for e in events()] == [event["subject"]] * 2
    client.model(MODEL, 1).set_alias("production")  # where it is
    look_again(world)
    assert len(events()) == 2
    dataset = next(iter(client.datasets))["id"]
    client.train(dataset, "ridge", model=MODEL).wait().set_alias("production")
    write(world, of_rows.values(version=2))
    world.wait_until(lambda: look_again(world) is not None)  # a move begins anew
    assert len(events()) == 3


def test_an_alarm_that_has_held_for_so_many_days_begins_a_training(start_world):
    world = start_world()
    world.client.set_renewal(ALIAS, alarm_days=60)
    call_with_moved_prices(world)
    write(world, sa.update(RenewalRow).values(copied_at=now() - 30 * DAY))
    since = look_again(world)
    assert 3 < (now() - since) / DAY < 30
    assert world.client.renewal(ALIAS).info["alarm_since"] is not None
    world.client.set_renewal(ALIAS, alarm_days=3)
    world.wait_for("trial")
    assert [step for step, _ in world.steps()] == ["started", "trial"]
    assert world.steps()[0][1] == (
        f"An alarm has held for 3 days, since {since:%Y-%m-%d %H:%M} UTC."
    )
