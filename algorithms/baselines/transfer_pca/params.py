"""The parameters of PCA and probabilistic PCA of source and target."""

from typing import Literal

from pydantic import Field

from algorithms.families.latent.source import SourceParams
from algorithms.families.subspaces.params import SubspaceParams


class TransferPCAParams(SubspaceParams, SourceParams):
    """Parameters of PCA of a source with an up-weighted target."""

    weight: float = Field(
        1.0,
        ge=0.0,
        le=1e9,
        title="Weight of the target",
        description="Weight of a row of the target; a row of the source has weight 1. 0: the "
        "source alone. 1: both pooled.",
    )


class PPCAParams(TransferPCAParams):
    """Parameters of probabilistic PCA."""

    rows: Literal["own", "weighted"] = Field(
        "own",
        title="Training rows",
        description="'own': the rows of the task. 'weighted': the rows of the source and the "
        "weighted rows of the task.",
    )
