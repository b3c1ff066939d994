"""Relations between the tasks of a model, as numbers."""

import numpy as np
import pytest

from sibling import ServiceError


@pytest.fixture(scope="module")
def related(client):
    """A model of three tasks, two with the same function, with unusual names."""
    rng = np.random.default_rng(5)
    X = {name: rng.standard_normal((30, 4)) for name in ("<b>&", "south", "south too")}
    w = rng.standard_normal((2, 4))
    y = {name: X[name] @ w[int(name != "<b>&")] for name in X}
    dataset = client.upload(X, y, name="related")
    return client.train(dataset, "fmtl", model="related", kernel="linear").wait()


def test_related_tasks_are_listed_side_by_side(related):
    relations = related.relations()
    assert set(relations["names"]) == {"<b>&", "south", "south too"}
    assert relations["names"].index("<b>&") != 1
    assert "'south' and 'south too' are most strongly related" in relations["sentence"]
    strength = np.array(relations["strength"])
    np.testing.assert_array_equal(strength, strength.T)
    np.testing.assert_allclose(np.diag(strength), 1.0)
    at = [relations["names"].index(name) for name in ("south", "south too")]
    assert strength[*at] == np.abs(strength - np.eye(3)).max()


def test_a_model_without_relations_is_404(client, dataset):
    model = client.train(dataset, "common-pca", model="unrelated", k=1).wait()
    with pytest.raises(ServiceError, match=r"no-relations: .* has no task relations"):
        model.relations()
