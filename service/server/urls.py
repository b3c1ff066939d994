"""Ordinary URLs of inference requests, which need no decoding."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

#: Patterns of the parameters of paths, and of the query.
_PARAMETERS: Final = {
    "{name}": r"(?P<name>[A-Za-z0-9._@~-]{1,100})",
    "{version}": r"(?P<version>[1-9][0-9]{0,8})",
}
_QUERY: Final = r"\?(?:task=(?P<task>[A-Za-z0-9._~-]+))?"


class UrlMatch(NamedTuple):
    """Path of the route that matches a URL, and the parameters of the URL."""

    path: str
    name: str
    version: int | None
    task: str | None


class UrlPatterns:
    """Patterns of the URLs of some routes, given by their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._patterns = [(path, _pattern(path)) for path in paths]

    def match(self, raw_path: bytes, query: bytes) -> UrlMatch | None:
        """Return the match of a URL, None if it is unusual or matches no route."""
        url = f"{raw_path.decode('latin-1')}?{query.decode('latin-1')}"
        for path, pattern in self._patterns:
            match = pattern.fullmatch(url)
            if match is not None:
                groups = match.groupdict()
                version = groups.get("version")
                number = None if version is None else int(version)
                return UrlMatch(path, groups["name"], number, groups["task"])
        return None


def _pattern(path: str) -> re.Pattern[str]:
    for parameter, pattern in _PARAMETERS.items():
        path = path.replace(parameter, pattern)
    return re.compile(path + _QUERY)
