"""Relations between the tasks of a model, as numbers."""

import httpx
import numpy as np
import pytest

from sibling import Client, ServiceError


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


@pytest.mark.slow  # trains on thousands of tasks
def test_too_large_relations_are_413_whatever_the_client_has(start_replica):
    service = start_replica(SIBLING_MAX_RESPONSE_BYTES=1000)
    rng = np.random.default_rng(6)
    X = {f"t{i}": rng.standard_normal((6, 2)) for i in range(12)}
    y = {name: rows @ [1.0, 2.0] for name, rows in X.items()}
    with Client(service.url) as client:
        client.train(client.upload(X, y), "fmtl", model="wide", kernel="linear").wait()
    for headers in ({}, {"If-None-Match": "*"}):
        response = httpx.get(
            f"{service.url}/v1/models/wide/relations", headers=headers, timeout=240
        )
        assert (response.status_code, response.json()["code"]) == (413, "too-many-rows")
