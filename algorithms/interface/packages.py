"""Checks that the packages of the algorithms are installed, when it is imported.

Modules without a class that can be trained do without them, for the client.
"""

from importlib.util import find_spec

for name in ("numba", "safetensors", "scipy", "sklearn", "threadpoolctl"):
    if find_spec(name) is None:
        raise ModuleNotFoundError(
            f"'{name}' is not installed; models are trained and loaded in this process after: "
            "pip install 'sibling[algorithms]'",
            name=name,
        )
