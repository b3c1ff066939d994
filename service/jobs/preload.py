"""What Dask loads into schedulers and workers before they begin."""

from importlib.metadata import version
from typing import Any


def dask_setup(server: Any) -> None:
    """Have a scheduler tell which version of the code it runs beside."""
    server.handlers["sibling_version"] = _version


def _version() -> str:
    return version("sibling")
