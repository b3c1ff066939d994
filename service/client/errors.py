"""What the client raises."""

from typing import Any

import httpx


class ServiceError(Exception):
    """The service refused a request, and said why.

    Attributes
    ----------
    status, code
        HTTP status and the stable code of the problem.
    errors
        Places: pointer or parameter, and task, row and column where there is one.
    """

    def __init__(self, status: int, code: str, detail: str, errors: list[dict[str, Any]]) -> None:
        lines = [
            f"{code}: {detail}",
            *(f"  {e['detail']}" for e in errors if e["detail"] != detail),
        ]
        super().__init__("\n".join(lines))
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors

    @classmethod
    def from_response(cls, response: httpx.Response) -> "ServiceError":
        """Return the error that a response tells."""
        try:
            body = response.json()
            return cls(response.status_code, body["code"], body["detail"], body["errors"])
        except (ValueError, KeyError, TypeError):  # not ours: a proxy's page, say
            return cls(response.status_code, "unexpected", response.text[:500], [])


class JobFailed(Exception):
    """A job ended without what it was to make."""

    def __init__(self, job: dict[str, Any]) -> None:
        error = job["error"] or {"detail": ""}
        super().__init__(f"job {job['id']} has {job['state']}: {error['detail']}".rstrip(": "))
        self.job = job
