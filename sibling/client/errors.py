"""Exceptions of the client. They can be pickled, so that they reach the parent of a process."""

import re
from functools import partial
from typing import Any, Final

import httpx

_START: Final = "start it with 'sibling serve', or set another URL (SIBLING_URL)"
#: Pattern of what is not text in a page.
_MARKUP: Final = r"(?s)<style.*?</style>|<[^>]*>"
#: Remedies for responses of a proxy.
_REMEDIES: Final = {
    413: "Raise the proxy's limit of bodies (client_max_body_size of nginx), or upload in parts.",
    502: "The proxy does not reach the service: check that it runs, and the proxy's address of it.",
    503: "The proxy has no service to pass the request to: check that it runs.",
    504: "The service took longer than the proxy waits: raise the proxy's time limit.",
}


class ServiceError(Exception):
    """Error response of the service.

    Attributes
    ----------
    status, code
        HTTP status, and the code of the problem as listed in docs/reference/errors.md.
    errors
        Locations of the error: pointer or parameter; task, row and column if known.
    remedy
        Advice of the service, if it gives any; tracebacks show it.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: list[dict[str, Any]],
        remedy: str | None = None,
    ) -> None:
        lines = [
            f"{code}: {detail}",
            *(
                f"  {_located(e)}"
                for e in errors
                if e["detail"] != detail and _located(e) not in detail
            ),
        ]
        super().__init__("\n".join(lines))
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.remedy = remedy
        if remedy is not None:
            self.add_note(remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to rebuild the error, which needs more than its message."""
        arguments = self.status, self.code, self.detail, self.errors, self.remedy
        return type(self), arguments, vars(self)

    @classmethod
    def from_response(cls, response: httpx.Response) -> "ServiceError":
        """Return the error in a response."""
        try:
            body = response.json()
            fields = body["code"], body["detail"], body["errors"], body.get("remedy")
            return cls(response.status_code, *fields)
        except (ValueError, KeyError, TypeError):
            return cls._of_proxy(response)

    @classmethod
    def _of_proxy(cls, response: httpx.Response) -> "ServiceError":
        """Return the error of a response that is not of the service."""
        text = " ".join(re.sub(_MARKUP, " ", response.text).split())
        server = response.headers.get("server")
        detail = (
            f"the response {response.status_code} is not of the service, but of "
            f"{f'{server!r}' if server else 'a program'} in front of it: {text[:200] or 'empty'}"
        )
        remedy = _REMEDIES.get(response.status_code)
        return cls(response.status_code, "unexpected", detail, [], remedy)


def json_of(response: httpx.Response) -> Any:
    """Return the JSON of a response; raise a ServiceError if it is another page, as of a proxy."""
    try:
        return response.json()
    except ValueError:
        raise ServiceError.from_response(response) from None


def _located(error: dict[str, Any]) -> str:
    """Return the detail of an error after its pointer, if it has one."""
    pointer = error.get("pointer")
    return f"{pointer}: {error['detail']}" if pointer else str(error["detail"])


class ServiceUnreachable(ConnectionError):
    """Exception for a service that cannot be reached, or that closed the connection.

    Attributes
    ----------
    url
        URL of the service.
    reason
        Error message of the connection.
    consequence
        Consequence for the caller, if it is known.
    advice
        What to do.
    """

    def __init__(
        self, url: str, reason: str, consequence: str | None = None, *, advice: str = _START
    ) -> None:
        message = f"cannot reach the service at {url} ({reason}); {advice}"
        super().__init__(message if consequence is None else f"{message}; {consequence}")
        self.url = url
        self.reason = reason
        self.consequence = consequence
        self.advice = advice

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error, as above."""
        rebuild = partial(type(self), advice=self.advice)
        return rebuild, (self.url, self.reason, self.consequence), vars(self)


class JobFailed(Exception):
    """Exception for a job that failed, timed out or was cancelled.

    Attributes
    ----------
    job
        The job as returned by the service.
    code, detail, remedy
        Code of the error as listed in docs/reference/errors.md, its description, and advice.
    error
        The whole error, with task, row, column and parameter if they are known.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        error = job["error"] or {"code": job["state"], "detail": ""}
        super().__init__(f"job {job['id']} ended as {job['state']}: {error['detail']}".rstrip(": "))
        self.job = job
        self.error = error
        self.code = str(error["code"])
        self.detail = str(error["detail"])
        self.remedy: str | None = error.get("remedy")
        if self.remedy:
            self.add_note(self.remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error, as above."""
        return type(self), (self.job,), vars(self)
