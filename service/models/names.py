"""Names of models; in the Open Inference Protocol they may end in a method, ``NAME.predict``."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from algorithms.interface.methods import METHODS
from service.errors.patterns import MODEL_NAME

_SUFFIXES: Final = ", ".join(f".{method}" for method in METHODS)


def split_method(name: str) -> tuple[str, str]:
    """Return the parts of ``NAME.METHOD``; the method is empty if the name ends in none."""
    base, _, method = name.rpartition(".")
    return (base, method) if base and method in METHODS else (name, "")


def _not_reserved(name: str) -> str:
    """Reject names that call a method of another model."""
    base, method = split_method(name)
    if method:
        detail = f"'{name}' is reserved: it calls the method {method} of a model '{base}'; choose "
        detail += f"a name that does not end in {_SUFFIXES}"
        raise PydanticCustomError("reserved", "{detail}", {"detail": detail})
    return name


#: Name of a model that a job creates.
NewModelName = Annotated[str, Field(pattern=MODEL_NAME), AfterValidator(_not_reserved)]
