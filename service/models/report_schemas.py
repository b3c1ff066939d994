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


class ExpectedScore(BaseModel):
    """Score that is expected for new rows of the tasks: rows that were held out of all choices."""

    metric: str = Field(description="Metric of the score: rmse or error_rate.")
    value: float = Field(description="Mean over tasks.")
    low: float | None = Field(description="Lower end of its 95 % interval; null for one task.")
    high: float | None = Field(description="Upper end of its 95 % interval; null for one task.")
    by_task: dict[str, float] = Field(description="Score on each task.")


class RacedMethod(BaseModel):
    """A method that a fit compared with others on the same held-out rows."""

    label: str = Field(description="Unique name: the algorithm, and how it was used.")
    algorithm: str = Field(description="Name of the algorithm.")
    params: dict[str, Any] = Field(description="Parameters that differ from the defaults.")
    weight: float | None = Field(None, description="Weight in the model; null if it is left out.")
    loss: float | None = Field(
        None,
        description="Mean over tasks of the logarithm of the mean squared error in units of the "
        "variance, or of the log loss, by which methods are compared; null if it is left out.",
    )
    value: float | None = Field(None, description="Mean of the metric over tasks.")
    by_task: dict[str, float] = Field(default_factory=dict, description="Metric on each task.")
    seconds: float | None = Field(None, description="Processor time of its fits, in seconds.")
    reason: str | None = Field(None, description="Why it is left out; null if it is compared.")


class RaceReport(BaseModel):
    """Methods that a fit compared, and what is expected of the model that it made of them."""

    expected: ExpectedScore = Field(description="Expected score of the model.")
    contenders: list[RacedMethod] = Field(description="The methods, the best first.")


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
    race: RaceReport | None = Field(
        None, description="Methods that the fit compared; null for algorithms of one method."
    )
    calibration: CalibrationReport | None = Field(
        None,
        description="Quality of probabilities, and levels; null without calibration.",
    )
    predictions: Predictions | None = Field(
        None,
        description="Predictions for held-out rows; null without evaluation and comparison.",
    )
