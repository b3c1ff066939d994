"""Train related tasks together, here or on a Sibling service.

What this package exports is imported when it is first used, so that importing it takes no longer
than importing what the client needs.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sibling.client import (
        AsyncClient,
        Client,
        Dataset,
        InferenceJob,
        JobFailed,
        RemoteJob,
        RemoteModel,
        RemoteOutputs,
        ServiceError,
        ServiceUnreachable,
        TrainingJob,
    )
    from sibling.remote_estimator import RemoteEstimator

__version__: Final = version("sibling")

__all__ = [
    "AsyncClient",
    "Client",
    "Dataset",
    "InferenceJob",
    "JobFailed",
    "RemoteEstimator",
    "RemoteJob",
    "RemoteModel",
    "RemoteOutputs",
    "ServiceError",
    "ServiceUnreachable",
    "TrainingJob",
]


def __getattr__(name: str) -> Any:
    if name == "RemoteEstimator":  # needs scikit-learn, unlike the client
        return import_module("sibling.remote_estimator").RemoteEstimator
    if name in __all__:
        return getattr(import_module("sibling.client"), name)
    if name[:1].isupper():  # not the modules that Python and its tools look for
        estimators = import_module("sibling.estimators").EXPORTS
        if name in estimators:
            return estimators[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__, *import_module("sibling.estimators").EXPORTS]
