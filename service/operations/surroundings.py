"""Checks of the surroundings of an installation: packages, port, clocks, running service."""

import errno
import os
import platform
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import httpx
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from service.operations.findings import Finding
from service.settings import Settings
from service.storage.database import Database
from sibling.client.environment import opened, url_of
from sibling.client.errors import ServiceUnreachable

_PACKAGES: Final = ("sibling", "numpy", "scipy")
#: Difference of clocks from which expiry, retention and retries are visibly early or late.
MAX_CLOCK_DIFFERENCE: Final = timedelta(seconds=5)
_TIMEOUT_S: Final = 3
_NO_ADDRESS: Final = "is not an address of this machine; correct SIBLING_HOST"

#: Addresses at which to reach a service that listens on all addresses.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def check_versions() -> Finding:
    """Report the versions of Python and of the packages that compute."""
    versions = [f"python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            detail = f"{package} is not installed for {platform.python_version()}; install it again"
            return Finding("versions", "error", detail)
    return Finding("versions", "ok", ", ".join(versions))


def check_port(settings: Settings) -> Finding:
    """Check that the service can listen, or runs already."""
    host, port = settings.host, settings.port
    if not port:
        return Finding("port", "ok", "the service takes a free one")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        socket.create_server(address[:2], family=family).close()
    except socket.gaierror:
        return Finding("port", "error", f"{host} {_NO_ADDRESS}")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _check_occupant(settings)
        if error.errno == errno.EADDRNOTAVAIL:
            return Finding("port", "error", f"{host} {_NO_ADDRESS}")
        detail = f"{port} of {host} cannot be used ({error.strerror}); set SIBLING_PORT"
        return Finding("port", "error", detail)
    return Finding("port", "ok", f"{port} of {host} is free")


def check_clock(database: Database) -> Finding:
    """Compare the clocks of this machine and of a database that responds."""
    if database.engine.dialect.name == "sqlite":
        return Finding("clock", "ok", "the database uses the clock of this machine")
    try:
        with database.engine.connect() as connection:
            before = datetime.now(UTC)
            there = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
            after = datetime.now(UTC)
    except SQLAlchemyError as error:
        return Finding("clock", "error", f"of the database: {type(error).__name__}")
    return _compare("clock", there - (before + (after - before) / 2), "the database")


def check_running_service() -> Finding | None:
    """Check that the service of SIBLING_URL responds, and compare clocks; None if it is not set."""
    url = os.environ.get("SIBLING_URL", "")
    if not url:
        return None
    try:
        answer = opened(url, lambda: _ask(url_of(url)))
    except (ServiceUnreachable, httpx.HTTPError) as error:
        advice = "start the service there, or correct SIBLING_URL"
        is_named = isinstance(error, ServiceUnreachable)
        detail = str(error) if is_named else f"{url} does not respond ({error}); {advice}"
        return Finding("SIBLING_URL", "warning", detail)
    running_version = _version_of(answer)
    if running_version is None:
        detail = f"{url} is not this service; correct SIBLING_URL"
        return Finding("SIBLING_URL", "warning", detail)
    if running_version != version("sibling"):
        return Finding("SIBLING_URL", "warning", f"{url} {_other_version(running_version)}")
    if "Date" not in answer.headers:
        return Finding("SIBLING_URL", "ok", f"{url} runs this version")
    # the header has whole seconds, and is up to one second old
    there = parsedate_to_datetime(answer.headers["Date"])
    return _compare("SIBLING_URL", there - datetime.now(UTC), f"{url}, which runs this version,")


def _check_occupant(settings: Settings) -> Finding:
    """Find out which program listens on the port."""
    host = _LOOPBACK.get(settings.host, settings.host)
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if settings.tls_cert_file else "http"
    address = f"{settings.port} of {settings.host}"
    try:
        # a certificate need not name the address to listen on
        running_version = _version_of(_ask(f"{scheme}://{shown}:{settings.port}", verify=False))
    except (httpx.HTTPError, ssl.SSLError):
        running_version = None
    if running_version is None:
        detail = f"{address} is used by another program; stop it, or set SIBLING_PORT"
        return Finding("port", "error", detail)
    if running_version != version("sibling"):
        return Finding("port", "warning", f"{address} {_other_version(running_version)}")
    return Finding("port", "ok", f"the service, in this version, runs on {address}")


def _ask(url: str, *, verify: bool = True) -> httpx.Response:
    return httpx.get(f"{url.rstrip('/')}/v2", timeout=_TIMEOUT_S, verify=verify, trust_env=verify)


def _version_of(answer: httpx.Response) -> str | None:
    """Return the version of the service that has answered, or None if it is not Sibling."""
    try:
        body = answer.json()
    except ValueError:
        return None
    is_ours = isinstance(body, dict) and body.get("name") == "sibling"
    return str(body.get("version")) if is_ours else None


def _other_version(running: str) -> str:
    return (
        f"runs version {running} of the service, and version {version('sibling')} is installed "
        "here; update and restart one of them"
    )


def _compare(check: str, difference: timedelta, other: str) -> Finding:
    seconds = difference.total_seconds()
    if abs(difference) > MAX_CLOCK_DIFFERENCE:
        detail = (
            f"the clock of {other} is {abs(seconds):.0f} s {'ahead' if seconds > 0 else 'behind'}; "
            "synchronise both machines (NTP), or keys, retention and retries have wrong times"
        )
        return Finding(check, "warning", detail)
    return Finding(check, "ok", f"agrees with {other} within {MAX_CLOCK_DIFFERENCE.seconds} s")
