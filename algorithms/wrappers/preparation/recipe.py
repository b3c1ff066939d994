"""Options of a preparation."""

from typing import Literal

from pydantic import ConfigDict, Field

from algorithms.interface.params import StrictModel


class Recipe(StrictModel):
    """How raw columns become numbers; everything learned comes from the training rows."""

    model_config = ConfigDict(frozen=True)

    impute: Literal["median", "mean", "most-frequent", "constant"] = Field(
        "median", description="Value for missing numbers, booleans and dates."
    )
    fill_value: float = Field(0.0, description="The value of `impute` = constant.")
    indicators: bool = Field(
        default=True,
        description="Add a column of 0 and 1 for each column with missing training values.",
    )
    min_count: int = Field(
        2,
        ge=1,
        le=10**9,
        description="Values of a category in fewer training rows share one column, also with "
        "values that training did not have.",
    )
    orders: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Ordered categories: column and its values from low to high. They become "
        "0, 1, 2, ... instead of one column for each value.",
    )
    scale: Literal["none", "centre", "standard", "robust"] = Field(
        "standard",
        description="Subtract the mean (centre), and divide by the standard deviation (standard); "
        "or subtract the median and divide by the interquartile range (robust). Booleans and "
        "columns of 0 and 1 are not scaled.",
    )
    per_task: bool = Field(
        default=False,
        description="Learn fill values and scales for each task instead of over all tasks.",
    )
    different_columns: Literal["refuse", "apart"] = Field(
        "refuse",
        description="Tasks with different columns: refused by algorithms that need the same ones "
        "(refuse), or fitted apart, those of each set of columns together (apart).",
    )
