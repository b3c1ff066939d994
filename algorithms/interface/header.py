"""The part of a model's header that is common to all model classes."""

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict


class CommonHeader(TypedDict):
    """Algorithm, task names, results of the fit (as JSON), and warnings."""

    algorithm: str
    tasks: tuple[str, ...]
    facts: Mapping[str, Any]
    warnings: tuple[str, ...]


class HasCommonHeader(Protocol):
    """An object with the fields of the common header as attributes."""

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that trained the model."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Results of the fit besides arrays: chosen parameters, objective, gaps."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about this fit."""


def dump_header(model: HasCommonHeader) -> dict[str, Any]:
    """Return the common header of a model as JSON."""
    return {
        "algorithm": model.algorithm,
        "tasks": list(model.tasks),
        "facts": dict(model.facts),
        "warnings": list(model.warnings),
    }


def load_header(header: Mapping[str, Any]) -> CommonHeader:
    """Return the common header from the JSON that :func:`dump_header` returned."""
    return CommonHeader(
        algorithm=str(header["algorithm"]),
        tasks=tuple(str(name) for name in header["tasks"]),
        facts=dict(header["facts"]),
        warnings=tuple(str(warning) for warning in header["warnings"]),
    )
