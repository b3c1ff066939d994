"""The catalogue lists the whole registry."""

import jsonschema_rs
import pytest

from algorithms.registry import ALGORITHMS
from service.catalogue.schemas import Algorithm


def test_every_registered_algorithm_is_listed(client):
    assert [item["name"] for item in client.algorithms] == sorted(ALGORITHMS)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_one_algorithm_comes_with_the_schema_of_its_parameters(http, name):
    body = http.get(f"/v1/algorithms/{name}").json()
    assert body["params"] == ALGORITHMS[name].Params.model_json_schema()
    assert tuple(body["methods"]) == ALGORITHMS[name].Model.methods()
    assert body["needs"]["min_samples"] == ALGORITHMS[name].needs.min_samples
    assert body["needs"]["sparse"] == ALGORITHMS[name].needs.sparse


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_defaults_are_valid_under_the_published_schema(http, name):
    schema = http.get(f"/v1/algorithms/{name}").json()["params"]
    defaults = ALGORITHMS[name].Params().model_dump(mode="json")
    assert jsonschema_rs.is_valid(schema, defaults)
    assert not jsonschema_rs.is_valid(schema, {**defaults, "k": 0})
    assert not jsonschema_rs.is_valid(schema, {**defaults, "unheard_of": 1})


def test_schemas_are_built_once():
    algorithm = ALGORITHMS["mtfl"]
    assert Algorithm.describe(algorithm) is Algorithm.describe(algorithm)


def test_an_unknown_algorithm_is_404_with_the_known_ones(http):
    response = http.get("/v1/algorithms/nonsense")
    assert response.status_code == 404
    assert all(name in response.json()["detail"] for name in ALGORITHMS)


def test_paging_returns_every_algorithm_once(http):
    names, token = [], None
    while True:
        query = {"page_size": 1} | ({"page_token": token} if token else {})
        body = http.get("/v1/algorithms", params=query).json()
        names += [item["name"] for item in body["items"]]
        token = body["next_page_token"]
        if token is None:
            break
    assert names == sorted(ALGORITHMS)
