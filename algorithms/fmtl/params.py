"""The parameters of FMTL."""

from typing import Literal

from pydantic import Field

from algorithms.kernel_machines.params import MachineParams


class FMTLParams(MachineParams):
    """Parameters of output-kernel learning."""

    penalty: Literal["power", "exp", "cosh"] = Field(
        "power",
        title="Penalty of the output kernel",
        description="'power': Σ|Θ|^p with p = 2k/(2k - 1). 'exp': Θ = exp(G/2λ), which ties "
        "every task to every other. 'cosh': Θ = sinh(G/2λ), between a power and 'exp'.",
    )
    k: int = Field(
        1,
        ge=1,
        le=10,
        title="Power k",
        description="1: p = 2, 2: p = 4/3, 4: p = 8/7. A larger k gives fewer relations, not "
        "better scores.",
    )
    lam: float = Field(
        1.0,
        ge=1e-6,
        le=1e6,
        title="Penalty weight λ",
        description="On the scale 'absolute' only; on the relative scale it follows from C, since "
        "the two are one parameter in effect.",
    )
    v_scale: Literal["half", "table", "full"] = Field(
        "half",
        title="Scale of the penalty",
        description="On the scale 'absolute': V is ½Σ|Θ|^p ('half', Theorem 3), Σ|Θ|^p/p "
        "('table', Table 1) or Σ|Θ|^p ('full', the text).",
    )
    solver: Literal["auto", "sdca", "sweeps", "spectral", "alternating", "newton"] = Field(
        "auto",
        title="Solver",
        description="All reach the same optimum. 'sdca': the paper's. 'sweeps': coordinate ascent "
        "by task, or by blocks of shared rows. For k = 1: 'spectral' and 'alternating' (squared "
        "loss, shared rows) and 'newton' (linear kernel, a smooth loss).",
    )
