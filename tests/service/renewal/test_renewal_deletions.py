"""What becomes of a renewal when a person deletes or moves something that it works with."""

import httpx
import pytest
import sqlalchemy as sa

from service.storage.tables import RenewalRow
from sibling import ServiceError
from tests.service.renewal.conftest import ALIAS, MODEL, made_rows

pytestmark = pytest.mark.slow  # services of their own
PATH = f"/v1/models/{MODEL}/aliases/production/renewal"


def test_a_renewal_that_is_deleted_and_set_again_goes_on_from_the_first_dataset(start_world):
    world = start_world()
    client = world.client
    world.call("old", made_rows(1, 10, slope=-2.0))

    def set_again():
        if httpx.get(world.service.url + PATH, timeout=240).status_code == 200:
            client.renewal(ALIAS).delete()
        rule = {"rows": 10, "promote": "hand"}
        put = lambda: httpx.put(world.service.url + PATH, json=rule, timeout=240)  # noqa: E731
        world.wait_until(lambda: put().status_code == 201)

    set_again()
    world.wait_for("trial").promote()
    world.call("new", made_rows(2, 10, slope=-2.0))
    set_again()
    trial = world.wait_for("trial").info["trial"]
    assert (trial["champion"], trial["challenger"]) == (2, 3)
    client.delete_dataset(client.datasets[0]["id"])
    client.renewal(ALIAS).delete()
    with pytest.raises(ServiceError, match="the dataset that the version was trained on"):
        world.wait_until(lambda: client.set_renewal(ALIAS, rows=10))


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
    client.train(client.datasets[0]["id"], "ridge", model=MODEL).wait()
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
    world.wait_until(lambda: len(client.datasets) == 1)
    assert client.model(MODEL).version == 2


def test_a_champion_without_targets_has_the_usual_losses_of_other_versions(start_world):
    world = start_world()
    client = world.client
    client.train(client.datasets[0]["id"], "ridge", model=MODEL).wait()
    world.call("old", made_rows(1, 10, slope=-2.0))
    client.model(MODEL, 2).set_alias("production")
    client.set_renewal(ALIAS, rows=10)
    world.wait_for("trial")
    with world.service.open_database() as database, database.read() as session:
        (trial,) = session.execute(sa.select(RenewalRow.trial)).one()
    assert trial["usual"][""] > 5  # of errors of about 4 times the price
