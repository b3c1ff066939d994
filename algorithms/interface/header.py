"""The part of a model's header that is common to all model classes."""

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypedDict

#: Column of tables with the task of each row, unless the training table had another one.
DEFAULT_TASK_COLUMN: Final = "task"
#: Results of a fit that users look for by name, with the names of :meth:`Model.learned`.
_LEARNED: Final = {
    "objective": "objective",
    "primal": "objective",
    "relative_gap": "duality_gap",
}


class CommonHeader(TypedDict):
    """Algorithm, task names, results of the fit (as JSON), and warnings."""

    algorithm: str
    tasks: tuple[str, ...]
    fit_info: Mapping[str, Any]
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
    def fit_info(self) -> Mapping[str, Any]:
        """Results of the fit besides arrays: chosen parameters, objective, gaps."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about this fit."""


def dump_header(model: HasCommonHeader) -> dict[str, Any]:
    """Return the common header of a model as JSON."""
    return {
        "algorithm": model.algorithm,
        "tasks": list(model.tasks),
        "fit_info": dict(model.fit_info),
        "warnings": list(model.warnings),
    }


def load_header(header: Mapping[str, Any]) -> CommonHeader:
    """Return the common header from the JSON that :func:`dump_header` returned.

    Versions up to 0.1 wrote ``fit_info`` as ``facts``.
    """
    fit_info = header["fit_info"] if "fit_info" in header else header["facts"]
    return CommonHeader(
        algorithm=str(header["algorithm"]),
        tasks=tuple(str(name) for name in header["tasks"]),
        fit_info=dict(fit_info),
        warnings=tuple(str(warning) for warning in header["warnings"]),
    )


def pick_learned(fit_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return objective and relative duality gap by their names in :meth:`Model.learned`."""
    return {name: fit_info[key] for key, name in _LEARNED.items() if key in fit_info}
