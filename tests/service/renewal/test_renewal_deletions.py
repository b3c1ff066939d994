"""What becomes of a renewal when a person deletes or moves something that it works with."""

import httpx
import pyarrow as pa
import pytest
import sqlalchemy as sa

from algorithms.evaluation.monitoring.trial import needed_evidence
from service.storage.database import now
from service.storage.tables import DatasetRow, MonitoredRow, RenewalRow
from sibling import ServiceError
from tests.service.renewal.conftest import ALIAS, MODEL, made_rows

pytestmark = pytest.mark.slow  # services of their own
PATH = f"/v1/models/{MODEL}/aliases/production/renewal"


def test_a_renewal_that_is_deleted_and_set_again_goes_on_from_the_first_dataset(start_world):
    world = start_world()
    client = world.client
    world.call("old", made_rows(1, 10, slope=-2.0))

    def set_rule():
        rule = {"rows": 10, "promote": "hand"}
        return httpx.put(world.service.url + PATH, json=rule, timeout=240).status_code == 201

    assert set_rule()
    world.wait_for("trial").promote()
    client.renewal(ALIAS).delete()
    world.call("new", made_rows(2, 10, slope=-2.0))
    world.wait_until(set_rule)
    trial = world.wait_for("trial").info["trial"]
    assert (trial["champion"], trial["challenger"]) == (2, 3)
    client.renewal(ALIAS).delete()
    world.wait_until(set_rule)
    renewal = world.wait_for("trial")
    needed = [trial["needed"], renewal.info["trial"]["needed"]]
    renewal.promote()
    renewal.put_back()
    world.call("more", made_rows(3, 10, slope=-2.0))
    renewal = world.wait_for("trial")
    needed.append(renewal.info["trial"]["needed"])
    assert needed == [needed_evidence(n) for n in (1, 2, 3)]  # all were tried against version 2
    renewal.delete()
    httpx.delete(f"{world.service.url}/v1/models/{MODEL}/versions/1", timeout=240)
    client.delete_dataset(next(iter(client.datasets))["id"])
    with pytest.raises(ServiceError, match="the dataset that the version was trained on"):
        client.set_renewal(ALIAS, rows=10)


def test_a_trial_ends_when_its_challenger_is_deleted_before_it_has_predicted(start_world):
    world = start_world()
    world.call("old", made_rows(1, 10))
    world.client.set_renewal(ALIAS, rows=10)
    world.wait_for("trial")
    url = f"{world.service.url}/v1/models/{MODEL}/versions/2"
    assert httpx.delete(url, timeout=240).status_code == 204
    world.call("new", made_rows(2, 10))
    renewal = world.wait_for("waiting", "ended")
    assert renewal.info["reason"] == "The trial has ended: the challenger was deleted."


HOLD = """
CREATE TRIGGER hold AFTER INSERT ON jobs
BEGIN UPDATE jobs SET retry_at = '2999-01-01 00:00:00.000000' WHERE id = NEW.id; END
"""


def test_a_training_fails_when_its_champion_is_deleted(start_world):
    world = start_world()
    client = world.client
    client.train(next(iter(client.datasets))["id"], "ridge", model=MODEL).wait()
    world.call("old", made_rows(1, 10))
    with world.service.open_database() as database, database.write() as session:
        session.execute(sa.text(HOLD))
    client.set_renewal(ALIAS, rows=10)
    world.wait_for("training")
    client.model(MODEL, 2).set_alias("production")
    httpx.delete(f"{world.service.url}/v1/models/{MODEL}/versions/1", timeout=240)
    with world.service.open_database() as database, database.write() as session:
        session.execute(sa.text("UPDATE jobs SET retry_at = NULL"))
    renewal = world.wait_for("waiting", "failed")
    assert renewal.info["reason"] == "Version 1, which was to be beaten, was deleted."
    world.wait_until(lambda: len([*client.datasets]) == 1)
    assert client.model(MODEL).version == 2


def test_an_error_is_told_and_tried_again_later_and_later_until_it_is_gone(start_world):
    world = start_world()
    world.call("old", made_rows(1, 10))
    of_row = MonitoredRow.row_id == "old-0"

    def run(query):
        with world.service.open_database() as database, database.write() as session:
            return session.scalar(query) if query.is_select else session.execute(query)

    values = run(sa.select(MonitoredRow.values).where(of_row))
    run(sa.update(MonitoredRow).where(of_row).values(values=b"abc"))
    renewal = world.client.set_renewal(ALIAS, rows=10)
    retry_at = sa.select(RenewalRow.retry_at)
    for minutes in (5, 10):
        world.wait_until(lambda: "unexpected error" in renewal.refresh()["reason"])
        assert renewal.info["reason"].endswith(
            "Before: 30 rows have got their target since the last training."
        )
        assert 0 < (run(retry_at) - now()).total_seconds() / 60 - minutes + 1 < 1
        run(sa.update(RenewalRow).values(retry_at=now()))
        world.wait_until(lambda: run(retry_at) > now())
    run(sa.update(MonitoredRow).where(of_row).values(values=values))
    world.client.set_renewal(ALIAS, rows=10)  # is tried again at once
    assert world.wait_for("trial").info["reason"].startswith("Version 2 is trained")


def test_rows_of_a_version_with_other_targets_and_columns_are_left_out(start_world):
    world = start_world()
    client = world.client

    def train(name, algorithm, change):
        rows = [change(i, row) for i, row in enumerate(made_rows(2, 20))]
        table = pa.Table.from_pylist(rows)
        dataset = client.upload(table, task_column="shop", target_column="sales", name=name)
        client.train(dataset, algorithm, model=MODEL).wait().set_alias("production")
        return rows

    classes = train(
        "classes",
        "logistic-regression",
        lambda _, row: {**row, "sales": "yes" if row["sales"] > 0 else "no"},
    )
    world.call("old", classes)
    numbers = train("numbers", "ridge", lambda i, row: {**row, "town": i})
    world.call("new", numbers)
    client.set_renewal(ALIAS, rows=10)
    world.wait_for("trial")
    with world.service.open_database() as database, database.read() as session:
        (manifest,) = session.scalars(
            sa.select(DatasetRow.manifest).where(DatasetRow.state == "deleted")
        )
    assert [task["n_samples"] for task in manifest["tasks"]] == [40, 40, 40]


def test_a_champion_without_targets_has_the_usual_losses_of_other_versions(start_world):
    world = start_world()
    client = world.client
    client.train(next(iter(client.datasets))["id"], "ridge", model=MODEL).wait()
    world.call("old", made_rows(1, 10, slope=-2.0))
    client.model(MODEL, 2).set_alias("production")
    client.set_renewal(ALIAS, rows=10)
    world.wait_for("trial")
    with world.service.open_database() as database, database.read() as session:
        (trial,) = session.execute(sa.select(RenewalRow.trial)).one()
    assert trial["usual"][""] > 5  # of errors of about 4 times the price
