"""Monitors and renewals in the database: races, stored bytes, and what the next turn reads."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa
from fastapi import Request

from algorithms.interface.errors import UnknownTask
from service.access.stored_bytes import TARGET_BYTES, stored_bytes
from service.models import alias_store
from service.models import store as model_store
from service.models.store import ActiveMonitor
from service.monitoring import alarms, store
from service.monitoring.recorder import Recorder
from service.monitoring.routes import _remove_values, delete_monitor
from service.observability.metrics import Metrics
from service.renewal import decision
from service.renewal import store as renewal_store
from service.renewal.schemas import RenewalSpec
from service.renewal.trial import days_to_weigh, predict_some, state_of_trial
from service.settings import Settings
from service.storage.database import now
from service.storage.ordered_pages import PageRequest
from service.storage.tables import (
    AliasRow,
    ModelRow,
    MonitoredRow,
    MonitorRow,
    RenewalRow,
    VersionRow,
    WebhookRow,
)
from tests.service.retention.test_store import World
from tests.waiting import wait_for

pytestmark = pytest.mark.sql
DAY = timedelta(days=1)


def row(row_id, prediction=None):
    return {
        "monitor_id": "mon",
        "row_id": row_id,
        "version": 1,
        "task": "a",
        "prediction": prediction,
        **dict.fromkeys(("low", "high", "probability", "unknown")),
        "values": b"",
        "size_bytes": 100,
        "created_at": now(),
    }


def target(row_id):
    moment = now()
    values = {"target": 1.0, "created_at": moment, "updated_at": moment}
    return {"monitor_id": "mon", "row_id": row_id, **values}


def test_a_labelled_row_does_not_replace_one_that_was_predicted_meanwhile(database):
    for rows in ([row("r"), row("s")], [row("r")]):
        with database.write() as session:
            store.add_rows(session, [row("r", 1.5)])
        with database.write() as session:
            store.add_unpredicted(session, rows)
    with database.read() as session:
        query = sa.select(MonitoredRow.row_id, MonitoredRow.prediction)
        assert dict(session.execute(query).all()) == {"r": 1.5, "s": None}
    with database.write() as session:  # the row itself comes late
        store.add_rows(session, [row("s", 2.5)])
    with database.read() as session:
        assert dict(session.execute(query).all()) == {"r": 1.5, "s": 2.5}


def test_rows_are_known_by_their_version_whatever_its_number(database):
    with database.write() as session:
        store.add_rows(session, [row("r")])
        assert store.known_rows(session, "mon", ["r", "s"]) == {"r"}
        assert store.known_rows(session, "mon", ["r"], 1) == {"r"}
        assert store.known_rows(session, "mon", ["r"], 0) == set()


@pytest.fixture
def monitor(database, tmp_path):
    """A monitor of an alias of ada's, which never keeps the column town."""
    world = World(database, tmp_path)
    version_id = world.version(world.job(world.dataset()))
    with database.write() as session:
        model_id = session.get_one(VersionRow, version_id).model_id
        alias = {"model_id": model_id, "alias": "production"}
        session.add(AliasRow(**alias, version_id=version_id, move_id="x", moved_at=now()))
        session.flush()
        values = {"share": 1, "days": 9, "never_keep": ["town"], "change_id": "x"}
        session.add(MonitorRow(id="mon", **alias, **values))
    return ActiveMonitor("mon", 1.0, ("town",))


def test_targets_count_as_stored_bytes_also_without_rows(database, monitor):
    with database.write() as session:
        before = stored_bytes(session, "ada")
        store.add_rows(session, [row("r")])
        store.add_targets(session, [target("r"), target("unknown")])
    with database.read() as session:
        assert stored_bytes(session, "ada") - before == 100 + 2 * TARGET_BYTES
        assert store.count_kept(session, monitor.id) == (1, 2, 100 + 2 * TARGET_BYTES)


def test_a_row_that_the_database_refuses_costs_no_row_of_another_monitor(database, monitor):
    with database.write() as session:
        own = session.get_one(MonitorRow, "mon")
        pointer = session.get_one(AliasRow, (own.model_id, own.alias))
        alias = {"model_id": own.model_id, "alias": "other"}
        session.add(AliasRow(**alias, version_id=pointer.version_id, move_id="y", moved_at=now()))
        session.flush()
        session.add(MonitorRow(id="other", **alias, share=1, days=9, never_keep=[], change_id="y"))
    other = ActiveMonitor("other", 1.0, ())
    recorder = Recorder(database, None, None, Metrics(), Settings())
    refused = [row("a"), {**row("b"), "task": "\ud800"}]
    recorder._rows += [(monitor, one) for one in refused]
    recorder._rows.append((other, {**row("c"), "monitor_id": "other"}))
    assert recorder._turn()
    assert not recorder._rows
    with database.read() as session:
        assert session.scalars(sa.select(MonitoredRow.row_id)).all() == ["c"]
        dropped = sa.select(MonitorRow.id, MonitorRow.n_dropped)
        assert dict(session.execute(dropped).all()) == {"mon": 2, "other": 0}


def test_rows_made_before_a_column_was_not_to_be_kept_are_refused(database, monitor):
    early = monitor._replace(never_keep=("price",))
    other = monitor._replace(never_keep=("price", "town"))
    gone = monitor._replace(id="gone")
    with database.read() as session:
        found = store.refusing_monitors(session, {monitor, early, other, gone}, 0)
        assert found == {early, gone}
        assert store.refusing_monitors(session, {monitor, other}, 1) == {monitor, other}


def add_renewal(database, **values):
    row = renewal_store.new_row("mon", "ds", now() - 5 * DAY)
    row.rule, row.change_id = {"alarm_days": None}, "x"
    for name, value in values.items():
        setattr(row, name, value)
    with database.write() as session:
        session.add(row)


def test_a_renewal_is_listed_without_its_trial_once_its_next_attempt_is_due(database, monitor):
    add_renewal(database, state="trial", trial={"days": []}, retry_at=now() + DAY)
    with database.write() as session:
        assert renewal_store.list_renewals(session) == []
        renewal_store.retry_at(session, monitor.id, now())
        (listed,) = renewal_store.list_renewals(session)
        assert listed[:4] == (monitor.id, "trial", 0, None)
        assert listed.has_monitor
        session.execute(sa.delete(MonitorRow))
        assert not renewal_store.list_renewals(session)[0].has_monitor


def test_only_monitors_whose_alarms_somebody_waits_for_are_looked_at(database, monitor):
    def due():
        return [seen.monitor.id for seen in alarms.due_monitors(session)]

    add_renewal(database)
    with database.write() as session:
        assert due() == []
        session.execute(sa.update(RenewalRow).values(rule={"alarm_days": 0}))
        assert due() == [monitor.id]
        session.execute(sa.update(RenewalRow).values(rule={}))
        webhook = {"owner": "ada", "url": "x", "secret": "x"}
        session.add(WebhookRow(id="w1", types=["job.failed"], **webhook))
        session.flush()
        assert due() == []
        session.add(WebhookRow(id="w2", types=None, **webhook))
        session.flush()
        assert due() == [monitor.id]
        session.execute(sa.update(MonitorRow).values(looked_at=now()))
        assert due() == []


def test_rows_that_a_challenger_has_predicted_are_not_read_again(database, monitor):
    add_renewal(database, state="trial", champion=1, challenger=2)
    rows = [{**row("r", 1.0), "created_at": now() - DAY, "version": n} for n in (1, 2)]
    with database.write() as session:
        store.add_rows(session, rows)
        renewing = renewal_store.find(session, monitor.id)
    services = SimpleNamespace(inference=SimpleNamespace(database=database, settings=Settings()))
    until, has_more = predict_some(services, renewing, now() - 9 * DAY)
    assert now() - timedelta(minutes=11) < until < now()
    assert not has_more


@pytest.fixture
def second(database, tmp_path, monitor):
    """Id of version 2 of the model of the monitor."""
    world = World(database, tmp_path, seed=1)
    version_id = world.version(world.job(world.dataset()))
    with database.write() as session:
        version = session.get_one(VersionRow, version_id)
        version.model_id, version.version = session.get_one(MonitorRow, monitor.id).model_id, 2
    return version_id


def test_alarms_stay_where_an_alias_is_put_on_the_version_that_it_has(database, monitor, second):
    raised_at = now() - 3 * DAY
    with database.write() as session:
        watched = session.get_one(MonitorRow, monitor.id)
        watched.alarm_since = watched.looked_at = raised_at
        alias = session.get_one(AliasRow, (watched.model_id, "production"))
        present = session.get_one(VersionRow, alias.version_id)
        for version, expected in (
            (present, raised_at),
            (session.get_one(VersionRow, second), None),
        ):
            alias_store.move(session, version, "production")
            session.refresh(watched)
            assert (watched.alarm_since, watched.looked_at) == (expected, expected)


def test_a_challenger_is_the_latest_version_only_where_no_other_is_left(database, second):
    def latest():
        listed, _ = model_store.list_models(session, "ada", PageRequest("name", None, 9))
        found = [model_store.find_served(session, "ada", name, None), *[n.row for n in listed]]
        found.append(model_store.get_version(session, "ada", name, None).row)
        return [version.version for version in found]

    with database.write() as session:
        challenger = session.get_one(VersionRow, second)
        name = session.get_one(ModelRow, challenger.model_id).name
        challenger.is_challenger = True
        session.flush()
        assert latest() == [1, 1, 1]
        session.execute(sa.delete(AliasRow))
        model_store.delete_version(session, model_store.get_version(session, "ada", name, 1))
        assert latest() == [2, 2, 2]


def test_a_trial_weighs_a_random_sample_of_the_rows_of_a_day(database, monitor):
    add_renewal(database, state="trial", champion=1, challenger=2)
    moment, ids = now() - DAY, [f"r{i}" for i in range(6)]
    with database.write() as session:
        for i, row_id in enumerate(ids):
            for version in (1, 2):
                made = {**row(row_id, float(i)), "created_at": moment, "version": version}
                store.add_rows(session, [made])
        store.add_targets(session, [target(row_id) for row_id in ids])
        renewing = renewal_store.find(session, monitor.id)

        def sample(limit):
            found = renewal_store.paired_rows(session, renewing, moment, now(), limit=limit)
            assert all(pair.champion == pair.challenger for pair in found)
            return [pair.champion for pair in found]

        assert sorted(sample(9)) == [0, 1, 2, 3, 4, 5]
        samples = [sample(3) for _ in range(60)]  # each lacks a row by chance half the time
    assert {len(set(drawn)) for drawn in samples} == {3}
    assert set().union(*samples) == {0, 1, 2, 3, 4, 5}


@pytest.mark.usefixtures("second")
def test_a_day_of_a_trial_without_labels_is_read_no_more_once_it_is_closed(database, monitor):
    rule, today = RenewalSpec(rows=10), datetime.combine(now().date(), time(), UTC)
    trial = {"usual": {"": 1.0}, "days": []}
    pair = {"champion": 1, "challenger": 2, "n_trials": 1}
    add_renewal(database, state="trial", trial=trial, rule={"rows": 10}, **pair)
    labelled = {"created_at": today - 3.5 * DAY}
    with database.write() as session:
        rows = [{**row("r", 1.0), **labelled, "version": version} for version in (1, 2)]
        store.add_rows(session, rows)
        store.add_targets(session, [target("r")])
        renewing = renewal_store.find(session, monitor.id)
    model = SimpleNamespace(tasks=())
    inference = SimpleNamespace(
        resolver=SimpleNamespace(find=lambda *_: None),
        models=SimpleNamespace(get=lambda _: model),
    )
    monitoring = SimpleNamespace(inference=inference)
    decision.weigh(SimpleNamespace(database=database, monitoring=monitoring), renewing)
    with database.read() as session:
        after = renewal_store.find(session, monitor.id).row
    assert [day["n"] for day in after.trial["days"]] == [0, 1, 0]
    assert days_to_weigh(after, rule, now()) == [today - 2 * DAY]  # labels may come late
    state = state_of_trial(after)
    assert (state.n_days, state.n_rows, state.gain) == (1, 1, 0)


def wait_until_locked_or_done(database, future):
    """Wait until what runs in a thread waits for a lock, or ends; SQLite has no list of locks."""
    waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    if database.engine.dialect.name == "postgresql":
        with database.read() as session:
            wait_for(lambda: future.done() or session.scalar(waiting))


@contextmanager
def beside_an_insert(database, run):
    """Run a function in a thread as rows are inserted, until it waits for a lock or ends."""
    begun = []

    def before(_connection, _cursor, statement, *_rest):
        if not begun and statement.startswith("INSERT INTO monitored_rows"):
            begun.append(pool.submit(run))
            wait_until_locked_or_done(database, begun[0])

    with ThreadPoolExecutor(1) as pool:
        sa.event.listen(database.engine, "before_cursor_execute", before)
        yield begun
        sa.event.remove(database.engine, "before_cursor_execute", before)


def test_no_value_is_left_of_a_column_that_is_excluded_while_rows_are_stored(database, monitor):
    def exclude():
        with database.write() as session:
            own = session.get_one(MonitorRow, "mon")
            own.never_keep = ["town", "price"]
        services = SimpleNamespace(inference=SimpleNamespace(database=database))
        _remove_values(services, own, {"price"})

    recorder = Recorder(database, None, None, Metrics(), Settings())
    of_deleted_version = {"version": 9, "values": np.ones(2).tobytes()}
    recorder._rows.append((monitor, row("r") | of_deleted_version))
    with beside_an_insert(database, exclude) as begun:
        assert recorder._turn()
        begun[0].result()
    with database.read() as session:
        values = session.scalar(sa.select(MonitoredRow.values))
    assert np.isinf(np.frombuffer(values)).all()


def test_a_monitor_is_deleted_after_a_change_that_has_begun(database, monitor):
    services = SimpleNamespace(
        models=SimpleNamespace(database=database),
        inference=SimpleNamespace(
            database=database, resolver=SimpleNamespace(wait_for_replicas=lambda: None)
        ),
        report_alarms=lambda *_: None,
    )
    given = {
        "services": services,
        "owner": "ada",
        "request": Request({"type": "http", "headers": []}),
    }
    given |= dict.fromkeys(("confirm", "record"), lambda *_: None)
    with ThreadPoolExecutor(1) as pool:
        with database.write() as session:
            own = session.get_one(MonitorRow, monitor.id)
            name = session.get_one(ModelRow, own.model_id).name
            alias_store.lock_model(session, "ada", name)
            own.share = 0.5
            deletion = pool.submit(delete_monitor, name, "production", **given)
            wait_until_locked_or_done(database, deletion)
        assert deletion.result().status_code == 204
    with database.read() as session:
        assert session.get(MonitorRow, monitor.id) is None


def test_no_answer_of_a_challenger_is_left_of_rows_that_are_deleted_meanwhile(database, monitor):
    add_renewal(database, state="trial", champion=1, challenger=2)
    with database.write() as session:
        store.add_rows(session, [row(row_id, 1.0) for row_id in ("ada-1", "bob-1")])
        renewing = renewal_store.find(session, monitor.id)

    def not_known(_served):
        raise UnknownTask("the version does not know the task")

    inference = SimpleNamespace(
        database=database,
        settings=Settings(),
        resolver=SimpleNamespace(find=lambda *_: SimpleNamespace(version=2)),
        models=SimpleNamespace(get=not_known),
    )
    deletions = store.delete_rows(database, monitor.id, "ada-")
    with beside_an_insert(database, lambda: list(deletions)) as begun:
        predict_some(SimpleNamespace(inference=inference), renewing, now() - 9 * DAY)
        assert begun[0].result() == [1, 0]
    with database.read() as session:
        left = session.execute(sa.select(MonitoredRow.row_id, MonitoredRow.version)).all()
    assert sorted(left) == [("bob-1", 1), ("bob-1", 2)]
