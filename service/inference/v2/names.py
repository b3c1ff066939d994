"""Models of the protocol: NAME for a model's main method, NAME.method for each of its methods.

NAME may be NAME@ALIAS.
"""

from collections.abc import Sequence
from typing import Final

from algorithms.interface.model import METHODS
from service.context import Services
from service.errors import Problem
from service.inference.resolver import ResolvedModel
from service.models.store import ALIAS_SEPARATOR, ServableVersion

#: The first that a model has is its main one.
_MAIN: Final = ("predict", "transform")


def find_named(services: Services, owner: str, name: str, version: int | None) -> ResolvedModel:
    """Give the version and the method that a name of the protocol stands for.

    A model may itself have a name that ends like a method; then the name is that model's.
    """
    served = services.resolver.find_any(owner, name, version)
    if served is not None:
        return ResolvedModel(served, main_method(served.methods))
    base, _, method = name.rpartition(".")
    if not base or method not in METHODS:
        base, method = name, ""
    served = services.resolver.find(owner, base, version)
    if method not in served.methods:
        can = ", ".join(names_of(served))
        detail = f"there is no model '{name}': '{base}' cannot {method}; there is {can}"
        raise Problem("not-found", detail)
    return ResolvedModel(served, method)


def main_method(methods: Sequence[str]) -> str:
    """Give the method that a model is called by its plain name."""
    return next((method for method in _MAIN if method in methods), methods[0])


def names_of(served: ServableVersion) -> list[str]:
    """Give the names of a model: its own, and one for each method."""
    return _with_methods(served.name, served)


def alias_names_of(served: ServableVersion, aliases: Sequence[str]) -> list[str]:
    """Give the names that a version has by its aliases."""
    marked = (f"{served.name}{ALIAS_SEPARATOR}{alias}" for alias in aliases)
    return [name for alias in marked for name in _with_methods(alias, served)]


def _with_methods(name: str, served: ServableVersion) -> list[str]:
    return [name, *(f"{name}.{method}" for method in served.methods)]
