"""Files that are sent as plain bytes, with their type in the query, as generated clients do."""

import pytest

PLAIN = {"Content-Type": "application/octet-stream"}
TABLE = b"school,reading,maths\nnorth,4,2\nnorth,2,5\nsouth,4,2.5\nsouth,2,4\nsouth,3,3.9\n"
ROWS = b"task,a,b,c,d,e\nnorth,1,2,3,4,5\n"
UPLOAD = {"name": "plain bytes", "task_column": "school", "target_column": "maths"}
#: Paths that take a file, with their query and a file.
PATHS = {
    "/v1/datasets": (UPLOAD, TABLE),
    "/v1/datasets:inspect": ({}, TABLE),
    "/v1/models/shared/transform": ({}, ROWS),
    "/v1/models/shared/versions/1/transform": ({}, ROWS),
    "/v1/models/plain-bytes/predictions": ({}, TABLE),
    "/v1/models/plain-bytes/versions/1/predictions": ({}, TABLE),
}


@pytest.fixture(scope="module")
def predicting(client, http):
    """A model that predicts, with its service."""
    named = {**UPLOAD, "name": "training rows"}
    dataset = client.dataset(
        http.post(
            "/v1/datasets", params=named, content=TABLE, headers={"Content-Type": "text/csv"}
        ).json()["id"]
    )
    if not any(model["name"] == "plain-bytes" for model in client.models()):
        client.train(dataset, "mean-regularised", model="plain-bytes").wait()
    return http


@pytest.mark.parametrize("path", PATHS)
def test_the_type_in_the_query_is_that_of_plain_bytes(predicting, path):
    query, body = PATHS[path]
    named = predicting.post(path, params=query, content=body, headers={"Content-Type": "text/csv"})
    query = {**query, "content_type": "text/csv; header=present"}
    plain = predicting.post(path, params=query, content=body, headers=PLAIN)
    assert named.status_code in (200, 201)
    assert plain.status_code == 200
    assert plain.json() == named.json()


@pytest.mark.parametrize("path", PATHS)
def test_a_type_in_the_query_beside_another_header_is_refused(predicting, path):
    query, body = PATHS[path]
    query = {**query, "content_type": "text/csv"}
    answer = predicting.post(path, params=query, content=body, headers={"Content-Type": "text/csv"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert answer.json()["errors"][0]["parameter"] == "query:content_type"


@pytest.mark.parametrize("path", PATHS)
def test_plain_bytes_of_no_type_are_refused(predicting, path):
    query, body = PATHS[path]
    answer = predicting.post(path, params=query, content=body, headers=PLAIN)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")
    assert "text/csv" in answer.json()["detail"]
