"""Train related tasks together, here or on a Sibling service.

What this package exports is imported when it is first used, so that importing it takes no longer
than importing what the client needs.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sibling.client import (
        Client,
        Dataset,
        InferenceJob,
        JobFailed,
        RemoteJob,
        RemoteModel,
        RemoteOutputs,
        ServiceError,
        TrainingJob,
    )

__version__: Final = version("sibling")

__all__ = [
    "Client",
    "Dataset",
    "InferenceJob",
    "JobFailed",
    "RemoteJob",
    "RemoteModel",
    "RemoteOutputs",
    "ServiceError",
    "TrainingJob",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("sibling.client"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
