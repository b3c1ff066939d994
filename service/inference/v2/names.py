"""Model names in the protocol: NAME for the main method, NAME.method for any method.

Both may have an alias: NAME@ALIAS, NAME@ALIAS.method.
"""

from collections.abc import Sequence
from typing import Final

from service.errors.problems import Problem
from service.inference.context import InferenceServices
from service.models.names import split_method
from service.models.resolver import ResolvedModel
from service.models.store import ALIAS_SEPARATOR, ServableVersion

#: Candidates for the main method; the first one that the model supports is used.
_MAIN_METHODS: Final = ("predict", "transform")


def find_named(
    services: InferenceServices, owner: str, name: str, version: int | None
) -> ResolvedModel:
    """Return the version and the method for a name of the protocol.

    If a model of an earlier version is itself named NAME.method, the name refers to that model.

    Parameters
    ----------
    version
        Version number; None for the latest version, or the version of an alias in the name.

    Raises
    ------
    Problem
        There is no such model, or it does not support the method.
    """
    served = services.resolver.find_any(owner, name, version)
    if served is not None:
        return ResolvedModel(served, main_method(served.methods))
    base, method = split_method(name)
    served = services.resolver.find(owner, base, version)
    if method not in served.methods:
        names = ", ".join(names_of(served))
        detail = f"there is no model '{name}': '{base}' does not support {method}; use {names}"
        raise Problem("not-found", detail)
    return ResolvedModel(served, method)


def main_method(methods: Sequence[str]) -> str:
    """Return the method to apply if a name has none."""
    return next((method for method in _MAIN_METHODS if method in methods), methods[0])


def names_of(served: ServableVersion) -> list[str]:
    """Return the names of a model: its own, and one for each method."""
    return _with_methods(served.name, served)


def alias_names_of(served: ServableVersion, aliases: Sequence[str]) -> list[str]:
    """Return the names of a version by its aliases."""
    full_names = (f"{served.name}{ALIAS_SEPARATOR}{alias}" for alias in aliases)
    return [name for full_name in full_names for name in _with_methods(full_name, served)]


def _with_methods(name: str, served: ServableVersion) -> list[str]:
    return [name, *(f"{name}.{method}" for method in served.methods)]
