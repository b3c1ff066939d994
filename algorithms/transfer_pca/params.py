"""The parameters of both."""

from typing import Literal

from pydantic import Field

from algorithms.latent.source import SourceParams
from algorithms.subspaces.params import SubspaceParams


class TransferPCAParams(SubspaceParams, SourceParams):
    """Parameters of PCA of a source with an up-weighted target."""

    weight: float = Field(
        1.0,
        ge=0.0,
        le=1e9,
        title="Weight of the target",
        description="What a row of the target counts, where one of the source counts 1. 0: the "
        "source alone. 1: both pooled.",
    )


class PPCAParams(TransferPCAParams):
    """Parameters of probabilistic PCA."""

    rows: Literal["own", "weighted"] = Field(
        "own",
        title="Learned from",
        description="'own': the rows of the task alone. 'weighted': those of the source and, "
        "with their weight, its own.",
    )
