"""The parameters of TLVM."""

from typing import Any, Literal

from pydantic import Field, field_validator

from algorithms.latent.params import LatentParams
from algorithms.latent.source import SourceParams


class TLVMParams(LatentParams, SourceParams):
    """Parameters of TLVM."""

    objective: Literal["joint", "printed", "conditional", "marginal"] = Field(
        "joint",
        title="Objective",
        description="'joint': one Gaussian process over the active rows of source and target; use "
        "it. The rest is there to compare. 'printed': the paper's eq. 19, which never sees the "
        "target's values. 'conditional': target rows given the source's (eq. 25); predictions "
        "rest on the source's rows. 'marginal': two processes with one set of hyper-parameters "
        "(eq. 13), whose latents have unrelated frames; predictions rest on the target's rows.",
    )
    lam: float = Field(
        0.0,
        ge=0.0,
        le=1e6,
        title="Weight of the divergence",
        description="Lambda. 0 leaves the divergence out, which reconstructs as well as any other "
        "value; the paper has 1. Objective 'printed' learns nothing of a target with 0.",
    )
    divergence: Literal["kl", "reverse-kl", "jeffreys", "squared-l2", "bhattacharyya"] = Field(
        "kl",
        title="Divergence",
        description="Between the covariances of both sets of active rows. 'kl': Kullback-Leibler. "
        "'reverse-kl': its sides exchanged, which is Itakura-Saito under dμ = q dy. 'jeffreys': "
        "the sum of both. 'squared-l2': normalised to 0..1. Bernoulli entropy has no closed form.",
    )
    pairing: Literal["assign", "order", "spectral"] = Field(
        "assign",
        title="Pairing",
        description="Which row of the target stands against which of the source. 'assign': "
        "those of least total distance about their means. 'order': in the order of their choice. "
        "'spectral': none; eigenvalues are compared, which bounds the divergence from below.",
    )

    @field_validator("divergence", mode="before")
    @classmethod
    def _refuse_bernoulli(cls, value: Any) -> Any:
        if value in ("bernoulli", "bernoulli-entropy"):
            raise ValueError(
                "the Bernoulli entropy of eq. 7 needs 1 - p(y) of a density p(y), which exceeds 1, "
                "and has no closed form between Gaussians; use 'kl'"
            )
        return value
