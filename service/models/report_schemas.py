"""API schemas of reports on the evaluation of a model."""

from typing import Any

from pydantic import BaseModel, Field

from algorithms.evaluation.scores.leaks import LeakingColumn
from algorithms.evaluation.scores.predictions import Predictions
from algorithms.evaluation.scores.recall import ClassReport
from service.models.calibration_schemas import CalibrationReport
from service.models.choice_schemas import Choice
from service.models.comparison_schemas import (
    FEW_ROWS,
    METRIC_REASON,
    UNIT,
    Comparison,
    Evaluation,
)


class Candidate(BaseModel):
    """Evaluated parameters, with scores on held-out rows."""

    params: dict[str, Any] = Field(description="Parameters of the candidate.")
    n_splits: int = Field(description="Number of splits on which it was evaluated.")
    mean: dict[str, float | None] = Field(description="Mean over tasks, by metric.")
    over_rows: dict[str, float | None] = Field(description="Metrics over the rows of all tasks.")
    by_task: dict[str, float | None] = Field(description="The selection metric on each task.")
    failed: str | None = Field(
        None, description="Error of a failed fit; such a candidate is left out of the choice."
    )


class SearchReport(BaseModel):
    """Results of a parameter search."""

    method: str = Field(description="grid, random, or halving.")
    metric: str = Field(description="Selection metric.")
    metric_reason: str | None = Field(None, description=METRIC_REASON)
    unit: str | None = Field(None, description=UNIT)
    larger_is_better: bool = Field(description="Whether larger values of the metric are better.")
    average: str = Field(description="Units of equal weight: tasks or rows.")
    few_rows: list[str] = Field(default_factory=list, description=FEW_ROWS)
    n_folds: int = Field(description="Number of folds.")
    repeats: int = Field(description="Number of repetitions of the cross-validation.")
    best: int = Field(description="Index of the best candidate.")
    candidates: list[Candidate] = Field(
        description="All candidates, in the order in which they were generated."
    )
    warnings: list[str] = Field(
        default_factory=list,
        description="Failed candidates, and chosen values at an end of the tried range.",
    )


class Report(BaseModel):
    """Search, comparison, evaluation, choice and calibration of a model."""

    search: SearchReport | None = Field(
        None, description="Results of the search; null without one."
    )
    comparison: Comparison | None = Field(
        None, description="Results of the comparison; null without one."
    )
    evaluation: Evaluation | None = Field(
        None, description="Results of the evaluation; null without one."
    )
    choice: Choice | None = Field(
        None, description="Automatic choice of the algorithm; null if the job names one."
    )
    leaking_columns: list[LeakingColumn] = Field(
        default_factory=list,
        description="Columns that alone predict the targets to nearly no error.",
    )
    classes: ClassReport | None = Field(
        None, description="Recall of each class on held-out rows; null for numbers, or without any."
    )
    calibration: CalibrationReport | None = Field(
        None,
        description="Quality of probabilities, and levels; null without calibration.",
    )
    predictions: Predictions | None = Field(
        None,
        description="Predictions for held-out rows; null without evaluation and comparison.",
    )
