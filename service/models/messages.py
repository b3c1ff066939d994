"""Messages about models that several packages send."""

from service.models.store import ServableVersion


def unknown_model(name: str, version: int | None = None) -> str:
    """Return the message that a model does not exist, or has no such version."""
    suffix = "" if version is None else f" with version {version}"
    return f"there is no model '{name}'{suffix}"


def unsupported_method(served: ServableVersion, method: str) -> str:
    """Return the message that a model does not have a method."""
    detail = f"model '{served.name}' ({served.algorithm}) does not support {method}"
    return f"{detail}; it supports {', '.join(served.methods)}"
