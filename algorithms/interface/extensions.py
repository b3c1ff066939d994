"""Algorithms of other installed packages, which register them by an entry point.

In the ``pyproject.toml`` of such a package::

    [project.entry-points."sibling.algorithms"]
    shrunken-means = "sibling_shrunken_means:ShrunkenMeans"

The name is that of the algorithm, and the object its class, a subclass of
:class:`algorithms.interface.algorithm.Algorithm`.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from algorithms.interface.algorithm import Algorithm

GROUP: Final = "sibling.algorithms"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class InvalidExtension(ValueError):
    """Raised when an installed package registers something that is not a usable algorithm."""


@dataclass(frozen=True, slots=True)
class Extension:
    """An algorithm of another package.

    Parameters
    ----------
    package
        Name of the installed package.
    version
        Version of the package.
    """

    algorithm: Algorithm[Any, Any]
    package: str
    version: str


def load_extensions(taken: Collection[str]) -> dict[str, Extension]:
    """Return the algorithms of other packages by name.

    Parameters
    ----------
    taken
        Names that they must not have.

    Raises
    ------
    InvalidExtension
        An entry point cannot be loaded, is not an algorithm, or has another or a taken name.
    """
    found: dict[str, Extension] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if entry.name in {*taken, *found}:
            raise _invalid(entry, "the name is taken; the package must choose another one")
        package, version = _origin(entry)
        found[entry.name] = Extension(_load(entry), package, version)
    return found


def _load(entry: EntryPoint) -> Algorithm[Any, Any]:
    if not _NAME.fullmatch(entry.name):
        raise _invalid(entry, "names have lower-case letters and digits, in words joined by '-'")
    try:
        loaded = entry.load()
    except Exception as error:
        raise _invalid(entry, f"'{entry.value}' cannot be imported: {error!r}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Algorithm)):
        raise _invalid(entry, f"'{entry.value}' is not a subclass of Algorithm")
    try:
        algorithm: Algorithm[Any, Any] = loaded()
    except TypeError as error:  # a method of the interface is missing
        raise _invalid(entry, f"'{entry.value}' cannot be created: {error}") from error
    if algorithm.name != entry.name:
        raise _invalid(entry, f"the algorithm calls itself '{algorithm.name}'")
    return algorithm


def _origin(entry: EntryPoint) -> tuple[str, str]:
    """Return the name and the version of the package of an entry point."""
    return ("?", "?") if entry.dist is None else (entry.dist.name, entry.dist.version)


def _invalid(entry: EntryPoint, problem: str) -> InvalidExtension:
    package, version = _origin(entry)
    return InvalidExtension(
        f"the algorithm '{entry.name}' of the installed package {package} {version} cannot be "
        f"used: {problem}. Update the package or uninstall it."
    )
