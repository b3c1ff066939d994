"""ETags, and requests that depend on them."""

from starlette.requests import Request

from service.errors import Problem


def etag(value: str) -> str:
    """Return a strong ETag."""
    return f'"{value}"'


def is_not_modified(request: Request, tag: str) -> bool:
    """Return whether the caller already has this version."""
    known = (t.removeprefix("W/") for t in _listed(request, "if-none-match"))
    return any(t in ("*", tag) for t in known)


def check_if_match(request: Request, tag: str) -> None:
    """Refuse a request about another version; weak tags never match."""
    wanted = _listed(request, "if-match")
    if wanted and not any(t in ("*", tag) for t in wanted):
        detail = f"If-Match is {', '.join(wanted)}, but the resource is now {tag}"
        raise Problem("precondition-failed", detail)


def check_overwrite(request: Request, tag: str | None) -> None:
    """Refuse to overwrite a version that the caller has not seen; ``tag`` None: none exists."""
    if tag is None and _listed(request, "if-match"):
        raise Problem("precondition-failed", "If-Match is given, but the resource does not exist")
    if tag is None:
        return
    if is_not_modified(request, tag):
        detail = f"If-None-Match does not allow an existing resource, but it is now {tag}"
        raise Problem("precondition-failed", detail)
    if not _listed(request, "if-match"):
        detail = f"the resource exists; send If-Match with its present ETag, {tag}, to overwrite it"
        raise Problem("precondition-required", detail)
    check_if_match(request, tag)


def _listed(request: Request, header: str) -> list[str]:
    lines = request.headers.getlist(header)
    return [tag.strip() for line in lines for tag in line.split(",")]
