"""URL, key, proxies and certificates of a connection, from arguments and the environment."""

import os
import ssl
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx

from sibling.client.errors import ServiceUnreachable

Opened = TypeVar("Opened")

DEFAULT_URL: Final = "http://127.0.0.1:8000"
_SCHEMES: Final = ("http", "https")
_FILES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"


def url_of(base_url: str | None) -> str:
    """Return the URL of the service, by default ``SIBLING_URL``.

    Raises
    ------
    ServiceUnreachable
        It is not a URL of HTTP.
    """
    text = (base_url or os.environ.get("SIBLING_URL") or DEFAULT_URL).strip()
    advice = f"write it as {DEFAULT_URL} or https://HOST/PATH (SIBLING_URL)"
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ServiceUnreachable(text, f"the URL is invalid: {error}", advice=advice) from None
    if url.scheme not in _SCHEMES or not url.host:
        raise ServiceUnreachable(text, "the URL does not begin with http://HOST", advice=advice)
    return text


def headers_of(api_key: str | None) -> dict[str, str]:
    """Return the headers of the key, by default ``SIBLING_API_KEY``, without blanks around it.

    Raises
    ------
    ValueError
        The key has a character that no key has, such as a line feed.
    """
    key = api_key or os.environ.get("SIBLING_API_KEY")
    if key is None:
        return {}
    key = key.strip()
    wrong = next((char for char in key if not "!" <= char <= "~"), None)
    if wrong is not None:
        raise ValueError(
            f"the API key has the character {wrong!r}, which no key has; copy it again, as one "
            "line (SIBLING_API_KEY)"
        )
    return {"Authorization": f"Bearer {key}"}


def opened(url: str, create: Callable[[], Opened]) -> Opened:
    """Return what ``create`` returns, which reads the variables of proxies and certificates.

    Raises
    ------
    ServiceUnreachable
        One of the variables cannot be used.
    """
    try:
        return create()
    except (OSError, ssl.SSLError) as error:
        raise ServiceUnreachable(url, str(error), advice=_correct(_FILES)) from None
    except (httpx.InvalidURL, ImportError, ValueError) as error:
        raise ServiceUnreachable(url, str(error), advice=_correct(_PROXIES)) from None


def unreachable(url: str, error: httpx.TransportError) -> ServiceUnreachable:
    """Return the error of a service that does not respond."""
    reason = str(error) or type(error).__name__
    if _UNTRUSTED in reason:
        advice = "set SSL_CERT_FILE to the PEM file of the authority of its certificate"
        return ServiceUnreachable(url, reason, advice=advice)
    target = httpx.URL(url)
    proxies = getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all")
    if proxy is None or proxy_bypass(target.host):
        return ServiceUnreachable(url, reason)
    shown = httpx.URL(proxy).copy_with(userinfo=b"")
    advice = f"requests go through the proxy {shown}; {_correct(_PROXIES)}"
    return ServiceUnreachable(url, reason, advice=advice)


def _correct(names: tuple[str, ...]) -> str:
    """Return what to do about variables of the environment, in capitals or small letters."""
    given = [name for upper in names for name in (upper, upper.lower()) if os.environ.get(name)]
    values = " and ".join(given)
    return f"correct {values or ' or '.join(names)}"
