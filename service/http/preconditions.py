"""ETags and conditional requests."""

from starlette.requests import Request

from service.errors.problems import Problem


def etag(value: str) -> str:
    """Return a strong ETag."""
    return f'"{value}"'


def is_not_modified(request: Request, tag: str) -> bool:
    """Return whether If-None-Match has this ETag."""
    tags = (t.removeprefix("W/") for t in _listed(request, "if-none-match"))
    return any(t in ("*", tag) for t in tags)


def check_if_match(request: Request, tag: str) -> None:
    """Raise a problem if If-Match does not have this ETag; weak ETags never match."""
    wanted = _listed(request, "if-match")
    if wanted and not any(t in ("*", tag) for t in wanted):
        detail = f"If-Match is {', '.join(wanted)}, but the current ETag is {tag}"
        raise Problem("precondition-failed", detail)


def check_overwrite(request: Request, tag: str | None) -> None:
    """Raise a problem unless the request may write a resource.

    Parameters
    ----------
    tag
        Current ETag of the resource; None if it does not exist.
    """
    if tag is None and _listed(request, "if-match"):
        raise Problem("precondition-failed", "If-Match is set, but the resource does not exist")
    if tag is None:
        return
    if is_not_modified(request, tag):
        detail = f"If-None-Match is set, but the resource exists, with the ETag {tag}"
        raise Problem("precondition-failed", detail)
    if not _listed(request, "if-match"):
        detail = f"the resource exists; send If-Match with its current ETag, {tag}, to overwrite it"
        raise Problem("precondition-required", detail)
    check_if_match(request, tag)


def _listed(request: Request, header: str) -> list[str]:
    lines = request.headers.getlist(header)
    return [tag.strip() for line in lines for tag in line.split(",")]
