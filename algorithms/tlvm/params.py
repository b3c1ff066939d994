"""The parameters of TLVM."""

from typing import Any, Literal

from pydantic import Field, field_validator

from algorithms.families.latent.params import LatentParams
from algorithms.families.latent.source import SourceParams


class TLVMParams(LatentParams, SourceParams):
    """Parameters of TLVM."""

    objective: Literal["joint", "printed", "conditional", "marginal"] = Field(
        "joint",
        title="Objective",
        description="'joint' (recommended): one Gaussian process over the active rows of source "
        "and target. The other values are for comparison. 'printed': the paper's eq. 19, which "
        "does not depend on the target's rows. 'conditional': target rows given the source's "
        "(eq. 25); predictions use the source's rows only. 'marginal': two processes with common "
        "hyper-parameters (eq. 13) and unrelated latents; predictions use the target's rows only.",
    )
    lam: float = Field(
        0.0,
        ge=0.0,
        le=1e6,
        title="Weight of the divergence",
        description="Lambda. 0 omits the divergence; no other value was better. The paper uses 1. "
        "With 0, the objective 'printed' ignores the target.",
    )
    divergence: Literal["kl", "reverse-kl", "jeffreys", "squared-l2", "bhattacharyya"] = Field(
        "kl",
        title="Divergence",
        description="Divergence between the covariances of the active rows of source and target. "
        "'kl': Kullback-Leibler. 'reverse-kl': Kullback-Leibler with exchanged arguments, which is "
        "Itakura-Saito under dμ = q dy. 'jeffreys': the sum of both. 'squared-l2': normalised to "
        "0..1. The Bernoulli entropy has no closed form.",
    )
    pairing: Literal["assign", "order", "spectral"] = Field(
        "assign",
        title="Pairing",
        description="Pairs of source and target rows for the divergence. 'assign': the pairs with "
        "the smallest total distance after centring. 'order': in the order of selection. "
        "'spectral': no pairs; eigenvalues are compared, a lower bound of the divergence.",
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
