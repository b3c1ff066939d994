"""The parameters of the multi-task Gaussian process."""

from typing import Literal

from pydantic import Field

from algorithms.interface.params import Iterations, Params


class GPParams(Params):
    """Parameters of the multi-task Gaussian process."""

    logarithms: Literal["auto", "never", "always"] = Field(
        "auto",
        title="Logarithms of the targets",
        description="'auto': learn the logarithms of the targets where all are above 0 and the "
        "evidence of the logarithms is clearly better. 'always' needs targets above 0.",
    )
    noise: Literal["normal", "student"] = Field(
        "normal",
        title="Noise",
        description="'student': Student's t with 4 degrees of freedom, for targets with outliers; "
        "takes several times as long.",
    )
    max_lengths: int = Field(
        30,
        ge=0,
        le=1_000,
        title="Columns with a length scale of their own",
        description="With more original columns than this, all have one length scale.",
    )
    evidence_rows: int = Field(
        1_000,
        ge=10,
        le=5_000,
        title="Rows of the evidence",
        description="Variances and length scales are learned from at most so many rows, balanced "
        "over the tasks. With more rows, tasks are related by features of their rows.",
    )
    tolerance: float = Field(
        0.1,
        ge=1e-10,
        le=10.0,
        title="Tolerance",
        description="Stop once the last ten steps have raised the logarithm of the evidence by "
        "less than this.",
    )
    max_iter: Iterations = Field(100, description="Maximum number of quasi-Newton steps.")
