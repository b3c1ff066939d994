"""The parameters of FMTL."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from algorithms.families.kernel_machines.params import PenaltyParams


class FMTLParams(PenaltyParams):
    """Parameters of output-kernel learning."""

    selection: Literal["given", "cv"] = Field(
        "cv",
        title="Choice of C",
        description="'given': use C. 'cv': select C from 'grid' by cross-validation of the "
        "training rows (error rate, or mean squared error), then fit on all of them. The default "
        "is 'given' if C is given (in an estimator, another C than 1), or with the kernel "
        "'precomputed'.",
    )
    solver: Literal["auto", "sdca", "sweeps", "spectral", "alternating", "newton"] = Field(
        "auto",
        title="Solver",
        description="All solvers reach the same optimum. 'sdca': the paper's solver. 'sweeps': "
        "coordinate ascent by task, or by blocks of shared rows. For k = 1 only: 'spectral' and "
        "'alternating' (squared loss, shared rows) and 'newton' (linear kernel, smooth loss).",
    )

    @model_validator(mode="before")
    @classmethod
    def _use_a_given_strength(cls, values: Any) -> Any:
        """Return the values with selection 'given' if it is open and C is not."""
        if not isinstance(values, Mapping) or "selection" in values:
            return values
        is_given = "C" in values or values.get("kernel") == "precomputed"
        return {**values, "selection": "given"} if is_given else values
