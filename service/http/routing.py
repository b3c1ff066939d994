"""Routes that authenticate the caller before they read the body; dependencies of routes."""

from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Final, Protocol

from fastapi import Depends, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Message, Receive, Scope

from algorithms.interface.errors import explain_unknown
from service.access.authenticator import SESSION, Authenticator
from service.access.keys import ALL_OWNERS
from service.access.rate_limit import RateLimiter
from service.errors.problems import Problem
from service.http.bodies import JSON
from service.http.requests import StrictRequest, prefix_of
from service.storage.tables import KeyRow

#: Methods that change nothing.
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Cookies with the token of a session: over HTTP, over HTTPS, where no other host can set it, and
#: over HTTPS below a prefix, since browsers accept the former for the path ``/`` only.
SESSION_COOKIE: Final = "sibling_session"
SECURE_SESSION_COOKIE: Final = f"__Host-{SESSION_COOKIE}"
PREFIXED_SESSION_COOKIE: Final = f"__Secure-{SESSION_COOKIE}"


class RecordEvent(Protocol):
    """Stores the audit event of a request in the transaction of its change."""

    def __call__(self, session: Session, status: int, path: str | None = None) -> None:
        """Store the event with the status of the response.

        Parameters
        ----------
        path
            Path of the changed resource. Default: the path of the request.
        """


def unrecorded(session: Session, status: int, path: str | None = None) -> None:
    """Store nothing, where no middleware records events."""


class StrictRoute(APIRoute):
    """A route that authenticates the caller, then reads the body through :class:`StrictRequest`.

    Attributes
    ----------
    needed
        Scope that a key needs for requests that write, and scope for requests that read; None if
        any key is accepted.
    is_audited
        Whether requests are recorded in the audit log. Requests that only read never are.
    is_rate_limited
        Whether requests count against the owner's limit of requests per second.
    """

    needed: ClassVar[tuple[str | None, str | None]] = (None, None)
    is_audited: ClassVar[bool] = True
    is_rate_limited: ClassVar[bool] = True

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the route matches; path parameters do not match a colon.

        A colon separates a resource from a custom method: ``/jobs/{job_id}`` must not match
        ``/jobs/job_1:cancel``.
        """
        match, child_scope = super().matches(scope)
        if any(":" in value for value in child_scope.get("path_params", {}).values()):
            return Match.NONE, {}
        return match, child_scope

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler."""
        handle = super().get_route_handler()
        takes_json = self.body_field is not None

        async def strict(request: Request) -> Response:
            bounded = StrictRequest(request.scope, self._authenticated_again(request))
            request.scope["owner"] = await self.owner_of(bounded)
            if self.is_rate_limited:
                _check_rate(request)
            if request.scope["query_string"] and self.include_in_schema:
                self._check_query(bounded)
            request.scope["authenticate"] = partial(self.owner_of, bounded)
            request.scope["confirm"] = partial(self.confirm, bounded)
            if takes_json:
                _check_is_json(request)
            return await handle(bounded)

        return strict

    @cached_property
    def query_names(self) -> tuple[str, ...]:
        """The query parameters of the route, as the OpenAPI document lists them."""
        # schemas of responses would take most of the time
        plain = APIRoute(self.path, self.endpoint, response_model=None, methods=self.methods)
        (operations,) = get_openapi(title="", version="", routes=[plain])["paths"].values()
        parameters = (p for one in operations.values() for p in one.get("parameters", ()))
        return tuple(dict.fromkeys(p["name"] for p in parameters if p["in"] == "query"))

    def _check_query(self, request: Request) -> None:
        """Raise a problem that names each query parameter that the route does not have."""
        errors = [
            {
                "parameter": f"query:{name}",
                "code": "extra_forbidden",
                "detail": explain_unknown(name, self.query_names, what="query parameter"),
            }
            for name in request.query_params
            if name not in self.query_names
        ]
        if errors:
            first = errors[0]
            detail = f"{first['parameter']}: {first['detail']}"
            raise Problem("invalid-request", detail, errors=errors)

    def _authenticated_again(self, request: Request) -> Receive:
        """Return a function that receives the body, and authenticates the caller again at its end.

        A body can take hours, in which the key is revoked.
        """

        async def receive() -> Message:
            message = await request.receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                await self.owner_of(StrictRequest(request.scope))
            return message

        return receive

    async def owner_of(self, request: StrictRequest) -> str:
        """Return the caller's owner.

        Runs before the body is read, so that unauthenticated requests stay cheap.
        """
        authenticator: Authenticator = request.app.state.authenticator
        needed = self.needed[request.method in READING]
        authorization = authorization_of(request.plain_headers, request.scope)
        owner = authenticator.cached_owner(authorization, needed)
        if owner is not None:
            return owner
        return await run_in_threadpool(authenticator.authenticate, authorization, needed)

    def confirm(self, request: StrictRequest, session: Session) -> KeyRow | None:
        """Return the caller's key, read in a transaction; see ``Authenticator.confirm``."""
        authenticator: Authenticator = request.app.state.authenticator
        authorization = authorization_of(request.plain_headers, request.scope)
        return authenticator.confirm(session, authorization, self.needed[request.method in READING])


def authorization_of(headers: Mapping[str, str], scope: Scope) -> str | None:
    """Return the authorization of a request: its header, or else the session of its cookie.

    Browsers add the cookie by themselves. A request that changes something must say with
    ``Origin`` that it comes from a page of this service, which ``HostPolicy`` has compared.
    """
    header = headers.get("authorization")
    if header is not None or "cookie" not in headers:
        return header
    session = session_of(headers["cookie"], scope)
    if session is None:
        return None
    if scope["method"] not in READING and "origin" not in headers:
        detail = (
            "a request with the cookie of a session needs the header Origin; send a key instead"
        )
        raise Problem("foreign-origin", detail)
    return session


def session_of(cookie: str, scope: Scope) -> str | None:
    """Return the authorization of the session in a Cookie header; None without one."""
    token = cookie_parser(cookie).get(session_cookie(scope))
    return None if token is None else f"{SESSION} {token}"


def session_cookie(scope: Scope) -> str:
    """Return the name of the cookie of sessions."""
    if scope["scheme"] != "https":
        return SESSION_COOKIE
    return PREFIXED_SESSION_COOKIE if prefix_of(scope) else SECURE_SESSION_COOKIE


def secured(
    scope: str | None, *, is_rate_limited: bool = True, is_audited: bool | None = None
) -> type[StrictRoute]:
    """Return the class of routes that need a scope, such as ``jobs:{}`` for read and write.

    Parameters
    ----------
    is_audited
        Default: all but inference, which reads although its method is POST.
    """
    needed = (None, None) if scope is None else (scope.format("write"), scope.format("read"))
    members = {
        "needed": needed,
        "is_audited": scope != "infer" if is_audited is None else is_audited,
        "is_rate_limited": is_rate_limited,
    }
    return type("SecuredRoute", (StrictRoute,), members)


def _check_rate(request: Request) -> None:
    """Raise a problem if the owner of a request exceeds the limit of requests per second."""
    limiter: RateLimiter | None = request.app.state.rate_limiter
    if limiter is not None:
        limiter.check(request.scope["owner"])


def _check_is_json(request: Request) -> None:
    """Raise a problem for another Content-Type.

    A page of another site can send text with the user's browser, but not JSON.
    """
    headers = request.headers
    content_type = headers.get("content-type", "")
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if (content_type or has_body) and content_type.partition(";")[0].strip().lower() != JSON:
        came = f"'{content_type}'" if content_type else "a body without Content-Type"
        raise Problem("unsupported-media-type", f"{came} is not supported; send {JSON}")


def app_state(name: str) -> Any:
    """Return a dependency on an attribute of the application's state."""

    # async, since FastAPI runs other functions in a thread, which takes longer than inference
    async def part(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(part)


async def _owner(request: Request) -> str:
    return str(request.scope["owner"])


async def is_still_authorized(request: Request) -> bool:
    """Return whether the key of a long request is still valid; True if that cannot be found out."""
    try:
        await request.scope["authenticate"]()
    except Problem:
        return False
    except SQLAlchemyError:
        return True
    return True


async def _visible(request: Request) -> str | None:
    authenticator: Authenticator = request.app.state.authenticator
    authorization = authorization_of(request.headers, request.scope)
    is_operator = "operator" in authenticator.describe(authorization).scopes
    return None if is_operator else await _owner(request)


def chosen_owner(wanted: str | None, owner: str, visible: str | None) -> str | None:
    """Return the owner that a request asks for, by default its own; None for all owners.

    Raises
    ------
    Problem
        The caller may not see others.
    """
    if wanted in (None, owner):
        return owner
    if visible is not None:
        detail = f"the owner '{wanted}' is another one, which needs the scope 'operator'"
        raise Problem("forbidden", detail)
    return None if wanted == ALL_OWNERS else wanted


async def _record(request: Request) -> Any:
    return request.scope.get("record", unrecorded)


async def _confirm(request: Request) -> Any:
    return request.scope["confirm"]


#: Dependency of routes that know their status beforehand: stores their audit event.
Record = Annotated[RecordEvent, Depends(_record)]
#: Dependency: the owner of the caller's API key.
Owner = Annotated[str, Depends(_owner)]
#: Dependency: the owner whose jobs and keys the caller may see; None for all owners.
Visible = Annotated[str | None, Depends(_visible)]
#: Query parameter of lists that an operator can have of others.
WantedOwner = Annotated[
    str | None,
    Query(
        max_length=200,
        description="The owner, or `*` for all owners; others than the caller's own need the scope "
        "`operator`.",
    ),
]
#: Dependency of routes that grant access: reads the caller's key again, in their transaction.
Confirm = Annotated[Callable[[Session], KeyRow | None], Depends(_confirm)]
