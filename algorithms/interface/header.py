"""The part of a model's header that is the same for all families."""

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict


class Told(TypedDict):
    """Names, what the fit decided (as JSON), and what the user should know."""

    algorithm: str
    tasks: tuple[str, ...]
    facts: Mapping[str, Any]
    warnings: tuple[str, ...]


class Telling(Protocol):
    """What has them as attributes."""

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that trained it."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the fit decided."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of this fit."""


def write_told(model: Telling) -> dict[str, Any]:
    """Return the four as JSON."""
    return {
        "algorithm": model.algorithm,
        "tasks": list(model.tasks),
        "facts": dict(model.facts),
        "warnings": list(model.warnings),
    }


def read_told(header: Mapping[str, Any]) -> Told:
    """Return what :func:`write_told` wrote."""
    return Told(
        algorithm=str(header["algorithm"]),
        tasks=tuple(str(name) for name in header["tasks"]),
        facts=dict(header["facts"]),
        warnings=tuple(str(warning) for warning in header["warnings"]),
    )
