"""The parameters of FMTL."""

from typing import Literal

from pydantic import Field

from algorithms.families.kernel_machines.params import PenaltyParams


class FMTLParams(PenaltyParams):
    """Parameters of output-kernel learning."""

    solver: Literal["auto", "sdca", "sweeps", "spectral", "alternating", "newton"] = Field(
        "auto",
        title="Solver",
        description="All solvers reach the same optimum. 'sdca': the paper's solver. 'sweeps': "
        "coordinate ascent by task, or by blocks of shared rows. For k = 1 only: 'spectral' and "
        "'alternating' (squared loss, shared rows) and 'newton' (linear kernel, smooth loss).",
    )
