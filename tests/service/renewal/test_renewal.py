"""A model is trained again, tried beside the old one, promoted, and put back."""

import pytest

from service.storage.tables import DatasetRow
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
    world.move_copy(40)
    world.call("new", made_rows(2, 80, slope=-2.0), days=30)
    world.wait_for("waiting", "promoted")
    assert client.model(ALIAS).version == client.model(MODEL).version == 2
    assert world.count("new", 2) == 240
    renewal.refresh()
    assert renewal.info["previous_version"] == 1
    assert "is better on" in renewal.info["reason"]
    renewal.put_back("Sales doubt it.")
    assert client.model(ALIAS).version == client.model(MODEL).version == 1
    assert world.steps()[-1] == ("put_back", "Version 1 was put back by hand. Sales doubt it.")
