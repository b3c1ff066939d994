"""The parameters of an algorithm: one frozen pydantic class each, the source of every form."""

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """Parameters of an algorithm; subclasses give each field title, description and bounds.

    Strict: ``true`` is not a number and ``"3"`` is not 3. Unknown names are refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
