"""The parameters of k-nearest neighbours."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.families.linear.bases import Standardise
from algorithms.interface.params import Folds, Grid, Params

Weights = Literal["uniform", "distance"]
Count = Annotated[int, Field(ge=1, le=10_000)]


class NeighboursParams(Params):
    """Parameters of k-nearest neighbours."""

    GRIDS: ClassVar = {"k": "grid"}

    k: Count = Field(
        5,
        title="Neighbours",
        description="Number of neighbours, at most the number of rows. Used if 'selection' is "
        "'given'.",
    )
    selection: Literal["given", "cv"] = Field(
        "cv",
        title="Choice of k",
        description="'given': use 'k'. 'cv': select from 'grid' by cross-validation of the "
        "training rows.",
    )
    grid: Grid[Count] = Field(
        (1, 3, 7, 15, 30, 60),
        max_length=200,
        title="Grid of k",
        description="Values of 'k' to try.",
    )
    n_folds: Folds = Field(3, description="Number of folds of the cross-validation.")
    form: Literal["task", "pooled"] = Field(
        "task",
        title="Form",
        description="'task': the neighbours are rows of the task. 'pooled': they are rows of any "
        "task.",
    )
    weights: Weights = Field(
        "uniform",
        title="Weights",
        description="'uniform': all neighbours count the same. 'distance': they count by 1 over "
        "their distance.",
    )
    standardise: Standardise = Field(
        "features",
        title="Standardisation",
        description="'features': each column is scaled to mean 0 and standard deviation 1 over the "
        "rows of all tasks. 'none': no standardisation.",
    )
