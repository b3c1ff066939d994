"""The parameters of an algorithm: one frozen pydantic class each, the source of every form."""

from typing import Annotated, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

V = TypeVar("V")

#: Values that a selection tries, in any kind of sequence.
Grid = Annotated[tuple[V, ...], Field(strict=False, min_length=1)]
#: Parts of the rows in a cross-validation.
Folds = Annotated[int, Field(ge=2, le=100, title="Folds")]
#: Most steps of a loop.
Iterations = Annotated[int, Field(ge=1, le=1_000_000, title="Iterations")]


class Params(BaseModel):
    """Parameters of an algorithm; subclasses give each field title, description and bounds.

    Strict: ``true`` is not a number and ``"3"`` is not 3. Unknown names are refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    #: The parameters that a ``selection`` chooses, and the field of the values that it tries.
    GRIDS: ClassVar[dict[str, str]] = {}
    #: The value of ``selection`` that chooses inside the training rows.
    INNER_SELECTION: ClassVar[str] = "cv"
