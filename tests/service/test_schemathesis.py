"""Requests made from the OpenAPI document, valid and not, against a real server."""

import json
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

pytestmark = pytest.mark.slow  # thousands of generated requests

#: The committed one, which another test compares with that of the code: it takes no time to make.
COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
DOCUMENT = json.loads(COMMITTED.read_text("utf-8"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATIONS = [
    (method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods
]


@pytest.fixture(scope="module")
def upload_id(service):
    """The id of a resumable upload."""
    headers = {"Upload-Length": "999", "Upload-Metadata": "filetype dGV4dC9jc3Y="}
    response = httpx.post(f"{service.url}/v1/uploads?name=parts", headers=headers, timeout=240)
    return response.json()["id"]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_responses_match_the_openapi_document(service, dataset, model, upload_id, method, path):
    operation = schemathesis.openapi.from_dict(DOCUMENT)[path][method]
    known = {
        "dataset_id": dataset.id,
        "job_id": model.info["lineage"]["job_id"],
        "name": "shared" if "models" in path else model.info["algorithm"],
        "version": 1,
        "alias": "production",
        "upload_id": upload_id,
        "plot": "spectrum",
        # form of an id alone: hosts of webhooks are not allowed here
        "key_id": "0" * 12,
        "webhook_id": "wh_" + "0" * 26,
        "delivery_id": "evt_" + "0" * 26,
    }

    strategies = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]

    @settings(
        max_examples=8,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(strategies), is_known=st.booleans())
    def call(case, is_known):
        # a job that is repeated would make versions of the model that other tests call
        if is_known and method != "DELETE" and not path.endswith(":repeat"):
            case.path_parameters = {n: known[n] for n in case.path_parameters or ()}
        if "wait" in (case.query or {}):
            case.query = {**case.query, "wait": 0}
        case.call_and_validate(base_url=service.url, checks=CHECKS, timeout=240)

    call()
