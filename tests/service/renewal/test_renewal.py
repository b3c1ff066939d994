"""A model is trained again, tried beside the old one, promoted, and put back."""

import os
import signal
import warnings
from functools import partial

import httpx
import pytest
import sqlalchemy as sa

from service.jobs.queue.lease import LEASE_NAME
from service.processes.lifetime import ProcessIdentity
from service.storage.tables import (
    DatasetRow,
    JobRow,
    LeaseRow,
    MonitoredRow,
    RenewalRow,
    VersionRow,
)
from sibling import ServiceError
from tests.service.renewal.conftest import ALIAS, MODEL, made_rows

pytestmark = [
    pytest.mark.slow,  # services of their own
    pytest.mark.filterwarnings("ignore::sibling.UnknownCategoriesWarning"),
]


@pytest.mark.sql
def test_a_better_challenger_is_promoted_and_the_old_version_put_back(start_world):
    world = start_world()
    client = world.client
    world.call("old", made_rows(1, 40, slope=-2.0, towns=("north", "south", "west")))
    client.set_renewal(ALIAS, rows=100)
    renewal = world.wait_for("trial")
    assert [step for step, _ in world.steps()] == ["started", "trial"]
    assert world.steps()[0][1].startswith("120 rows have got their target")
    challenger = client.model(MODEL, 2)
    assert client.model(MODEL).version == client.model(ALIAS).version == 1
    assert [d["name"] for d in client.datasets] == ["sales"]
    with world.service.open_database() as database, database.read() as session:
        trained_on = session.get_one(DatasetRow, challenger.info["lineage"]["dataset_id"])
        assert trained_on.content_blob_id is None
        assert [t["n_samples"] for t in trained_on.manifest["tasks"]] == [70, 70, 70]
    with warnings.catch_warnings(action="error"):  # it knows the new town
        challenger.predict([{"shop": "a", "price": 1.0, "town": "west"}])
    for page in (f"/models/{MODEL}/2", f"/models/{MODEL}/2/predict", f"/models/{MODEL}"):
        assert httpx.get(world.service.url + page, timeout=240).status_code == 200, page
    world.move_copy(40)
    world.call("new", made_rows(2, 80, slope=-2.0), days=30)
    world.wait_for("waiting", "promoted")
    assert client.model(ALIAS).version == client.model(MODEL).version == 2
    assert world.count("new", 2) == 240
    client.monitor(ALIAS).feedback([{"row_id": "new-0", "sales": 1.0}])  # the name is still known
    renewal.refresh()
    assert renewal.info["previous_version"] == 1
    assert "is better on" in renewal.info["reason"]
    renewal.put_back("Sales doubt it.")
    assert client.model(ALIAS).version == client.model(MODEL).version == 1
    assert world.steps()[-1] == ("put_back", "Version 1 was put back by hand. Sales doubt it.")


@pytest.mark.sql
@pytest.mark.timeout(900)
def test_each_step_is_taken_once_though_the_process_that_takes_it_is_killed(start_world):
    world = start_world(SIBLING_WORKERS=3, SIBLING_LEASE_TIMEOUT_S=2)
    world.call("old", made_rows(1, 40, slope=-2.0))
    killed = {}
    with world.service.open_database() as database:

        def kill_until(state, *killed_in):
            """Kill the process that acts once in each state; return whether the last has come."""
            with database.read() as session:
                holder = session.get(LeaseRow, LEASE_NAME)
                (now_in,) = session.execute(sa.select(RenewalRow.state)).one()
            pid = None if holder is None else ProcessIdentity.from_text(holder.holder).pid
            if now_in in killed_in and now_in not in killed and pid not in (None, *killed.values()):
                os.kill(pid, signal.SIGKILL)
                killed[now_in] = pid
            return now_in == state

        world.client.set_renewal(ALIAS, rows=100, max_rows=60, bounds="all")
        begun = ("copying", "combining", "training")
        world.wait_until(lambda: kill_until("trial", *begun), seconds=600)
        world.move_copy(40)
        world.call("new", made_rows(2, 80, slope=-2.0), days=30)
        world.wait_until(lambda: kill_until("waiting", "trial"), seconds=600)
        assert len(killed) >= 2
        with database.read() as session:
            rows = session.scalars(sa.select(MonitoredRow.version)).all()
            n_jobs = session.scalar(sa.select(sa.func.count()).where(JobRow.is_challenger))
            versions = session.scalars(sa.select(VersionRow.version)).all()
            (manifest,) = session.scalars(
                sa.select(DatasetRow.manifest).where(DatasetRow.state == "deleted")
            )
    assert [step for step, _ in world.steps()] == ["started", "trial", "promoted"]
    assert (n_jobs, sorted(versions)) == (1, [1, 2])
    assert (rows.count(1), rows.count(2)) == (360, 240)
    assert sum(task["n_samples"] for task in manifest["tasks"]) == 3 * 20 + 60
    assert [d["name"] for d in world.client.datasets] == ["sales"]


HOLD = """
CREATE TRIGGER hold AFTER INSERT ON jobs
BEGIN
    UPDATE jobs SET retry_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', '+280 seconds')
    WHERE id = NEW.id;
END
"""


def test_rows_that_are_deleted_leave_the_training_and_a_person_decides(start_world):
    world = start_world()
    client = world.client
    world.call("ada", made_rows(1, 5))
    world.call("bob", made_rows(2, 20))

    def write(*statements):
        with world.service.open_database() as database, database.write() as session:
            for statement in statements:
                session.execute(sa.text(statement))

    def copied():
        with world.service.open_database() as database, database.read() as session:
            rows = session.scalars(sa.select(DatasetRow).order_by(DatasetRow.id)).all()
        return {
            row.name: sum(task["n_samples"] for task in row.manifest["tasks"])
            for row in rows
            if row.content_blob_id is not None
        }

    write(HOLD)
    client.set_renewal(ALIAS, rows=10, promote="hand")
    world.wait_for("training")
    assert copied() == {"sales": 90, f"{ALIAS}, renewal 1": 90 + 75}
    assert client.monitor(ALIAS).delete_rows("ada-") == 30
    world.wait_until(lambda: copied() == {"sales": 90, f"{ALIAS}, renewal 2": 90 + 60})
    write("DROP TRIGGER hold", "UPDATE jobs SET retry_at = NULL")
    renewal = world.wait_for("trial")
    assert copied() == {"sales": 90}
    assert [job["state"] for job in client.jobs] == ["succeeded", "cancelled", "succeeded"]
    with pytest.raises(ServiceError, match="nothing was promoted"):
        renewal.put_back()
    assert renewal.promote("The board agreed.")["previous_version"] == 1
    assert client.model(ALIAS).version == client.model(MODEL).version == 2
    assert world.steps()[-1] == (
        "promoted",
        "Version 2 was promoted by hand. The board agreed.",
    )
    with pytest.raises(ServiceError, match="no challenger is on trial"):
        renewal.promote()
    client.delete_alias(MODEL, "production")
    with pytest.raises(ServiceError, match="not-found"):
        renewal.refresh()
    with world.service.open_database() as database:

        def is_gone():
            with database.read() as session:
                return session.scalar(sa.select(sa.func.count(RenewalRow.monitor_id))) == 0

        world.wait_until(is_gone)


def test_what_cannot_be_renewed_is_refused_when_the_rule_is_set(start_world):
    world = start_world()
    client = world.client
    url = f"{world.service.url}/v1/models/{MODEL}/aliases/production/renewal"
    put = partial(httpx.put, url, timeout=240)
    for body, pointer, said in (
        ({}, "", "at least one of rows, alarm_days and cron"),
        ({"rows": 9}, "/rows", "10"),
        ({"alarm_days": -1}, "/alarm_days", "0"),
        ({"cron": "0 3 * * 8"}, "/cron", "day of the week, which is from 0 to 7"),
        ({"cron": "0 0 31 2 *"}, "/cron", "no such day"),
        ({"rows": 10, "promote": "luck"}, "/promote", "test"),
        ({"rows": 10, "label_days": 60}, "", "no day would be weighed; give more trial_days"),
        ({"rows": 10, "row": 1}, "/row", "row"),
    ):
        refused = put(json=body)
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (422, "invalid-request"), body
        assert problem["errors"][0]["pointer"] == pointer
        assert said in problem["errors"][0]["detail"]
    client.set_monitor(ALIAS, never_keep=["price"])
    with pytest.raises(ServiceError, match="never keeps 'price'"):
        client.set_renewal(ALIAS, rows=10)
    client.monitor(ALIAS).delete()
    with pytest.raises(ServiceError, match="has no monitor"):
        client.set_renewal(ALIAS, rows=10)
    client.set_monitor(ALIAS)
    with pytest.raises(ServiceError, match="has no renewal; PUT creates it"):
        client.renewal(ALIAS)
    created = put(json={"cron": "0 3  * * 1\n"})
    assert created.status_code == 201
    assert created.json()["rule"]["cron"] == "0 3 * * 1"
    assert created.json()["due_at"].endswith("T03:00:00Z")
    tag = {"If-Match": created.headers["etag"]}
    assert put(json={"rows": 10}, headers=tag).status_code == 200
    assert put(json={"rows": 20}, headers=tag).status_code == 412
    assert httpx.get(url, timeout=240).json()["rule"]["rows"] == 10
    assert httpx.delete(url, headers=tag, timeout=240).status_code == 412
    assert httpx.delete(url, timeout=240).status_code == 204
    world.wait_until(lambda: put(json={"rows": 10}).status_code == 201)
    shown = f"{world.service.url}/models/{MODEL}/aliases/production/monitor"
    page = httpx.get(shown, headers={"Accept": "text/html"}, timeout=240)
    assert page.status_code == 200
    for said in ("Waits for its rule.", 'name="rows" type="number" min="10" value="10"'):
        assert said in page.text
