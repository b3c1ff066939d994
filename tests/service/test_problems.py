"""Responses of errors."""

import asyncio
import errno
import json

import pytest
from sqlalchemy.exc import TimeoutError as PoolTimeout

from algorithms.interface.errors import InvalidArtifact, UnknownTask
from service.errors.problems import Problem, error_response


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Problem("not-found", "there is no job 'job_0'"), 404, "not-found"),
        (UnknownTask("task 'x' is unknown", task="x"), 422, "unknown-task"),
        (InvalidArtifact("not a model"), 500, "internal"),
        (OSError(errno.ENOSPC, "no space"), 503, "resource-shortage"),
        (PoolTimeout(), 503, "unavailable"),
        (asyncio.CancelledError(), 503, "unavailable"),
        (ZeroDivisionError(), 500, "internal"),
    ],
)
@pytest.mark.parametrize("path", [None, "/v1/jobs", "/v2/models/m/infer"])
def test_one_function_makes_the_response_of_every_error(error, status, code, path):
    scope = None if path is None else {"path": path}
    response = error_response(error, scope)
    is_v2 = path is not None and path.startswith("/v2")
    if is_v2 and status == 422:
        status = 400
    body = json.loads(response.body)
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert response.media_type == ("application/json" if is_v2 else "application/problem+json")
    assert ("error" in body) == is_v2
    assert scope is None or scope["problem_code"] == code
