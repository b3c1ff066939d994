"""The parameters of gradient-boosted trees."""

from typing import Literal

from pydantic import Field

from algorithms.interface.params import Folds, Params


class BoostedTreesParams(Params):
    """Parameters of gradient-boosted trees."""

    form: Literal["task", "pooled"] = Field(
        "pooled",
        title="Form",
        description="'task': the trees of each task from its own rows. 'pooled': one model of the "
        "rows of all tasks, with the task as a category.",
    )
    n_trees: int = Field(
        300,
        ge=1,
        le=10_000,
        title="Trees",
        description="Number of trees (per class if there are more than two), and the largest one "
        "that 'selection' tries.",
    )
    selection: Literal["given", "cv"] = Field(
        "cv",
        title="Choice of the number of trees",
        description="'given': train 'n_trees' trees. 'cv': stop early, at the number with the "
        "smallest error in a cross-validation of the training rows.",
    )
    n_folds: Folds = Field(3, description="Number of folds of the cross-validation.")
    learning_rate: float = Field(
        0.05,
        ge=1e-4,
        le=1.0,
        title="Learning rate",
        description="Factor of each tree. Smaller rates need more trees.",
    )
    n_leaves: int = Field(
        8, ge=2, le=1024, title="Leaves", description="Maximum number of leaves of a tree."
    )
    min_rows: int = Field(
        5,
        ge=1,
        le=100_000,
        title="Rows per leaf",
        description="Minimum number of training rows in a leaf.",
    )
    l2: float = Field(
        1.0,
        ge=0.0,
        le=1e6,
        title="Regularisation of leaves",
        description="Weight of the squared values of the leaves.",
    )
