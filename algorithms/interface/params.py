"""The base class of the parameters of algorithms.

The pydantic classes are the single source of the API schema, the documentation, the command line
and the forms.
"""

from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field

from algorithms.interface.strict_model import StrictModel

V = TypeVar("V")

#: Values that parameter selection tries.
Grid = Annotated[tuple[V, ...], Field(strict=False, min_length=1)]
#: Number of folds of a cross-validation.
Folds = Annotated[int, Field(ge=2, le=100, title="Folds")]
#: Maximum number of iterations.
Iterations = Annotated[int, Field(ge=1, le=1_000_000, title="Iterations")]
#: Relative duality gap at which a solver stops.
GapTolerance = Annotated[
    float,
    Field(
        ge=1e-12,
        le=0.1,
        title="Tolerance",
        description="Stop once the relative duality gap is below this.",
    ),
]
#: Whether linear functions have intercepts.
Intercepts = Annotated[
    bool,
    Field(
        title="Intercepts",
        description="Whether each task has an intercept, which is not penalised.",
    ),
]


class Params(StrictModel):
    """Parameters of an algorithm; fields of subclasses have a title, a description and bounds.

    Types are strict: ``true`` is not a number and ``"3"`` is not 3. Unknown names are an error.
    """

    model_config = ConfigDict(frozen=True)

    #: Parameters that ``selection`` chooses, each with the name of the field with its grid.
    GRIDS: ClassVar[dict[str, str]] = {}
    #: Values of other parameters that an automatic choice tries besides the grids.
    ALTERNATIVES: ClassVar[dict[str, tuple[Any, ...]]] = {}
    #: Values of parameters that make another method for an automatic choice, by its label.
    VARIANTS: ClassVar[dict[str, dict[str, Any]]] = {}
    #: Value of ``selection`` that chooses parameters inside the training rows.
    INNER_SELECTION: ClassVar[str] = "cv"
