"""Train related tasks together, here or on a Sibling service.

What this package exports is imported when it is first used, so that importing it takes no longer
than importing what the client needs.
"""

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sibling.client import (
        AsyncClient,
        Client,
        Dataset,
        InferenceJob,
        JobFailed,
        NewTasksWarning,
        RemoteJob,
        RemoteModel,
        RemoteMonitor,
        RemoteOutputs,
        RemoteRenewal,
        ServiceError,
        ServiceUnreachable,
        TrainingJob,
        UnknownCategoriesWarning,
    )
    from sibling.estimators import *  # noqa: F403 - the estimators, of which there is a stub file
    from sibling.estimators import Auto, Estimator, FitWarning
    from sibling.remote_estimator import RemoteEstimator

__version__: str


def check_not_hidden(package: str) -> None:
    """Raise an ImportError if another package of this name hides the one of this distribution."""
    spec = find_spec(package)
    ours = Path(__file__).parents[1] / package / "__init__.py"
    if spec is not None and spec.origin is not None and not ours.samefile(spec.origin):
        raise ImportError(
            f"{spec.origin} hides the package {package!r} of Sibling, which is in {ours.parent}: "
            "rename it, or run Python from another folder"
        )


check_not_hidden("algorithms")

__all__ = [
    "AsyncClient",
    "Auto",
    "Client",
    "Dataset",
    "Estimator",
    "FitWarning",
    "InferenceJob",
    "JobFailed",
    "NewTasksWarning",
    "RemoteEstimator",
    "RemoteJob",
    "RemoteModel",
    "RemoteMonitor",
    "RemoteOutputs",
    "RemoteRenewal",
    "ServiceError",
    "ServiceUnreachable",
    "TrainingJob",
    "UnknownCategoriesWarning",
]

#: Modules of what needs scikit-learn, unlike the client.
_OF_SCIKIT_LEARN: Final = {
    "Auto": "sibling.estimators",
    "Estimator": "sibling.estimators",
    "FitWarning": "sibling.estimators",
    "RemoteEstimator": "sibling.remote_estimator",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":  # a build imports this package before it is installed
        return globals().setdefault(name, version("sibling"))
    if name in _OF_SCIKIT_LEARN:
        import_module("algorithms.interface.packages")
        return getattr(import_module(_OF_SCIKIT_LEARN[name]), name)
    if name in __all__:
        return getattr(import_module("sibling.client"), name)
    if name[:1].isupper():  # not the modules that Python and its tools look for
        estimators = import_module("algorithms.registry").CLASS_NAMES
        if name in estimators:
            return getattr(import_module("sibling.estimators"), name)
        from difflib import get_close_matches

        similar = get_close_matches(name, [*__all__, *estimators], n=3)
        if similar:
            asked = " or ".join(map(repr, similar))
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}; did you mean {asked}?"
            )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    own = [name for name in globals() if name.startswith("__")]
    try:
        return [*own, *__all__, *import_module("algorithms.registry").CLASS_NAMES]
    except ModuleNotFoundError:  # an installation of the client alone
        return [*own, *__all__]
