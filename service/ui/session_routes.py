"""Pages to sign in with an API key, and to sign out."""

from contextlib import suppress
from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from service.access.authenticator import Authenticator
from service.errors.problems import Problem
from service.http.bodies import read_body
from service.http.requests import prefix_of
from service.http.routing import SESSION_COOKIE, session_cookie, session_of
from service.ui.rendering import Frame, pages_of, render

router = APIRouter(include_in_schema=False)

_MAX_FORM_BYTES: Final = 8192
_FRAME: Final = Frame(title="Sign in")


@router.get("/login")
def login_page(request: Request, target: Annotated[str, Query(alias="next")] = "/") -> Response:
    """Return the page to sign in."""
    return render(request, "login.html", _FRAME, {"next": target, "error": ""})


@router.post("/login")
async def login(request: Request) -> Response:
    """Open a session, whose token is in a cookie, if the key is valid."""
    length = request.headers.get("content-length", "")
    body = await read_body(request.receive, length, _MAX_FORM_BYTES)
    form = parse_qs(body.decode("utf-8", "replace"))
    key, target = (form.get(name, [""])[0].strip() for name in ("key", "next"))
    authenticator: Authenticator = request.app.state.authenticator
    if authenticator.is_open:
        return RedirectResponse(_local(target), status_code=303)
    request.scope["key_id"] = authenticator.describe(f"Bearer {key}").key_id  # for the audit log
    try:
        token = await run_in_threadpool(authenticator.sign_in, key)
    except Problem as problem:
        view = {"next": target, "error": problem.detail}
        return render(request, "login.html", _FRAME, view, status=problem.status_code)
    caller = authenticator.describe(f"Bearer {key}")
    path = _local(target)
    if path == "/":
        path = pages_of(caller.scopes, is_open=False)[0][0]
    response = RedirectResponse(path, status_code=303)
    name = session_cookie(request.scope)
    path = prefix_of(request.scope) or "/"
    is_secure = name != SESSION_COOKIE
    response.set_cookie(name, token, path=path, httponly=True, samesite="strict", secure=is_secure)
    request.scope["owner"] = caller.owner
    return response


@router.post("/logout")
def logout(request: Request) -> Response:
    """End the session, and delete its cookie."""
    authorization = session_of(request.headers.get("cookie", ""), request.scope)
    if authorization is not None:
        authenticator: Authenticator = request.app.state.authenticator
        with suppress(Problem):  # it has ended already
            authenticator.authenticate(authorization, None)
        caller = authenticator.describe(authorization)
        request.scope.update(owner=caller.owner, key_id=caller.key_id)  # for the audit log
        authenticator.sign_out(authorization)
    response = RedirectResponse("/login", status_code=303)
    path = prefix_of(request.scope) or "/"
    for name in {SESSION_COOKIE, session_cookie(request.scope)}:
        response.delete_cookie(name, path=path, secure=name != SESSION_COOKIE)
    return response


def _local(target: str) -> str:
    """Return the target if it is a path of this service, else ``/``."""
    is_local = target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if is_local else "/"
