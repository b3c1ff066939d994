"""Messages about models, for use by several packages."""

from algorithms.wrappers.calibration.model import METHODS_FOR
from service.models.store import ServableVersion


def unknown_model(name: str, version: int | None = None) -> str:
    """Return the message that a model does not exist, or has no such version."""
    suffix = "" if version is None else f" with version {version}"
    return f"there is no model '{name}'{suffix}"


def unsupported_method(served: ServableVersion, method: str) -> str:
    """Return the message that a model does not have a method, and how to get it."""
    detail = f"model '{served.name}' ({served.algorithm}) does not support {method}"
    detail += f"; it supports {', '.join(served.methods)}"
    target = next((target for target, methods in METHODS_FOR.items() if method in methods), None)
    if target is None:
        return detail
    return f"{detail}; to get it, train with 'calibration' on targets that are {target}"
