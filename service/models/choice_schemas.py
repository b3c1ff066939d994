"""API schemas of automatic choices of the algorithm."""

from typing import Any, Self

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, model_validator

from algorithms.evaluation.choice.automatic_verdict import update_choice
from service.models.comparison_schemas import (
    FEW_ROWS,
    METRIC_REASON,
    REASON,
    UNIT,
    VERDICTS,
    ComparedRows,
    MethodLabel,
)


class ChoiceEstimate(BaseModel):
    """Score of the whole choice, made anew in every split without the held-out rows."""

    value: float | None = Field(description="Mean over splits.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    chosen: list[MethodLabel] = Field(description="The method that was chosen in each split.")
    by_task: dict[str, dict[str, float | None]] = Field(
        {},
        description="`{metric: {task: value}}`: the deciding metric, and the RMSE or error rate; "
        "none in reports of earlier versions.",
    )


class ChoiceKind(MethodLabel):
    """Score of a mixture of the methods of a kind, each split by weights without its rows."""

    kind: str = Field(
        description="`multi_task`: of all methods, as whoever shares may learn alone, too; "
        "`pooled`, `single_task`, or `trivial`: of those that ignore the columns."
    )
    value: float | None = Field(description="Mean over splits.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")


class LeaderboardRow(MethodLabel):
    """A method of an automatic choice, with its scores on held-out rows."""

    value: float | None = Field(description="Mean over splits. The best of many is optimistic.")
    weight: float | None = Field(
        None, description="Weight in the model; null in reports of earlier versions."
    )
    loss: float | None = Field(
        None,
        description="By which methods are weighted: mean over tasks of the logarithm of the mean "
        "squared error in units of the variance of all targets, or of the mean log loss.",
    )
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    inner: float | None = Field(
        None,
        description="Score in cross-validation of all rows, by which an earlier version chose.",
    )
    left_out_tasks: float | None = Field(
        None,
        description="Mean score on tasks that are left out, with `new_tasks` `common`; null for "
        "methods that cannot answer for them.",
    )
    n_task_wins: int = Field(description="Number of tasks in which it has the best mean.")
    n_chosen: int = Field(description="Number of splits in which it had a weight.")
    fit_s: float = Field(description="Processor time of the fit with all rows, in s.")
    predict_s: float = Field(description="Processor time of predictions for 1,000 rows, in s.")
    total_s: float = Field(description="Processor time of all its fits and predictions, in s.")
    params: dict[str, Any] = Field(description="Parameters, complete with defaults.")


class Alignment(BaseModel):
    """Test whether the functions of tasks, each learned alone, point the same way."""

    p_value: float = Field(description="One-sided p-value; small if they do.")
    null: str = Field(
        description="Distribution without relation: random `signs` of tasks, or, with fewer than 7 "
        "tasks, random `rotations` of their targets."
    )
    n_tasks: int = Field(description="Number of tasks that were used.")
    n_rows: int = Field(description="Number of rows that were used.")


class ChoicePair(BaseModel):
    """Comparison of two mixtures, each of the methods of a side."""

    verdict: str = Field(description=VERDICTS)
    certainty: str | None = Field(
        None,
        description="How sure `helps` is on learning together: very likely or probably. Null for "
        "other verdicts and other comparisons.",
    )
    reason: str | None = Field(None, description=REASON)
    first: MethodLabel | None = Field(description="Mixture, or only method, of the first side.")
    second: MethodLabel | None = Field(description="Mixture, or only method, of the second side.")
    first_value: float | None = Field(description="Score of the first side on held-out rows.")
    second_value: float | None = Field(description="Score of the second side.")
    gain: float | None = Field(description="Gain of the first over the second.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    p_value: float | None = Field(
        description="p-value of the t-test over splits (corrected) or, on learning together, over "
        "tasks, if that interval is wider."
    )
    margin: float | None = Field(description="Minimum relevant gain.")


class ChoiceTask(BaseModel):
    """Gain of learning together over learning alone on one task."""

    verdict: str = Field(description=VERDICTS)
    reason: str | None = Field(None, description=REASON)
    gain: float | None = Field(
        description="Gain of learning together, drawn to the mean of all tasks."
    )
    low: float | None = Field(description="Lower end of the interval of `task_confidence`.")
    high: float | None = Field(description="Upper end of the interval of `task_confidence`.")
    p_value: float | None = Field(description="p-value of the corrected resampled t-test.")
    p_adjusted: float | None = Field(
        description="p-value adjusted for the number of tasks (Benjamini-Hochberg)."
    )
    margin: float | None = Field(description="Minimum relevant gain.")


class ChoicePerTask(BaseModel):
    """Choice for each task, in reports of earlier versions: learned together, or alone."""

    verdict: str = Field(
        description="Effect against one method for all tasks: helps, hurts, equal, unclear or none."
    )
    reason: str | None = Field(None, description=REASON)
    value: float | None = Field(description="Score of this choice on held-out rows.")
    gain: float | None = Field(description="Gain over one method for all tasks.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    p_value: float | None = Field(description="p-value of the corrected resampled t-test.")
    margin: float | None = Field(description="Minimum relevant gain.")
    together: list[str] = Field(description="Tasks to be learned together.")
    apart: list[str] = Field(description="Tasks to be learned alone.")


class NotCompared(BaseModel):
    """A method that was not compared, or not to the end."""

    algorithm: str = Field(description="Algorithm name.")
    role: str = Field(description="Role of the method.")
    variant: str = Field("", description="Distinguishes methods of the same name and role.")
    reason: str = Field(description="Reason why it was left out.")


class CurvePoint(BaseModel):
    """Scores with a share of the training rows of each task."""

    share: float = Field(description="Share of the training rows.")
    rows: float = Field(description="Mean number of training rows per task.")
    together: float = Field(description="Score of a mixture of all methods.")
    apart: float = Field(description="Score of the methods that learn alone.")
    gain: float | None = Field(description="Gain of the first over the second.")
    low: float | None = Field(description="Lower end of the 95 % interval of the gain.")
    high: float | None = Field(description="Upper end of the 95 % interval of the gain.")


class PowerCurve(BaseModel):
    """The curve `limit + factor * rows ** -exponent`."""

    limit: float = Field(description="Value with any number of rows.")
    factor: float = Field(description="Distance from the limit with one row.")
    exponent: float = Field(description="How fast the distance falls.")


class ChoiceCurve(BaseModel):
    """Learning curve: learning together against alone, by training rows per task."""

    reason: str | None = Field(description="Reason why there is no curve; null with a curve.")
    points: list[CurvePoint] = Field(description="Scores with 1/4, 1/2, 3/4 and all of the rows.")
    together: PowerCurve | None = Field(None, description="Fitted scores of learning together.")
    apart: PowerCurve | None = Field(None, description="Fitted scores of learning alone.")
    max_rows: float | None = Field(
        None, description="Largest number of rows per task that is extrapolated to."
    )
    stops_at: float | None = Field(
        None,
        description="Largest number of rows per task with a relevant gain, by the fitted gain. 0: "
        "at none; null: at `max_rows`, too.",
    )
    low: float | None = Field(None, description="Lower end of the 95 % interval of `stops_at`.")
    high: float | None = Field(None, description="Upper end of the 95 % interval of `stops_at`.")
    rows_needed: float | None = Field(
        None, description="Rows per task that are needed to show a gain that is not shown yet."
    )
    tasks_factor: float | None = Field(
        None, description="Factor on the number of tasks that would show this gain."
    )
    methods: list[MethodLabel] = Field(description="Methods that the budget allowed.")
    left_out: list[NotCompared] = Field(description="Methods left out of the curve, with reasons.")


class LearnedAlone(BaseModel):
    """Method and parameters of tasks that are learned alone, while others learn together."""

    algorithm: str = Field(description="Algorithm name.")
    variant: str = Field("", description="Distinguishes methods of the same name and role.")
    params: dict[str, Any] = Field(description="Parameters selected with all rows.")
    tasks: list[str] = Field(description="Names of these tasks.")


class NewTasksAnswer(BaseModel):
    """Methods that answer for tasks that were not trained."""

    members: list[MethodLabel] = Field(description="Those with a part that tasks have in common.")
    weight: float = Field(description="Their part of the weight, 0 to 1.")


class Choice(BaseModel):
    """Automatic choice of the algorithm."""

    chosen: MethodLabel = Field(
        description="The algorithm of the model: ensemble, a weighted mean of methods of the "
        "leaderboard, or the best of them with `single`. In reports of earlier versions, the role "
        "per_task: learned together by this algorithm, or alone, as `alone` says."
    )
    alone: LearnedAlone | None = Field(
        None, description="Tasks that another method learns alone, in models of earlier versions."
    )
    estimate: ChoiceEstimate = Field(description="Expected score of the chosen model.")
    sentences: list[str] = Field(description="The result in words.")
    leaderboard: list[LeaderboardRow] = Field(description="All methods, the best score first.")
    kinds: list[ChoiceKind] = Field(
        [],
        description="A mixture of each kind of methods; none in reports of earlier versions.",
    )
    choice_or_best: ChoicePair | None = Field(
        None,
        description="The whole choice against the first row of the leaderboard. That row is the "
        "best of many, so the comparison is biased against the choice.",
    )
    alignment: Alignment | None = Field(
        None,
        description="The level of the verdict on learning together; null if no tasks have the same "
        "columns, or they share rows, or fewer than two have targets that differ.",
    )
    columns: str | None = Field(
        None, description="What could be shared between tasks with different columns; null if same."
    )
    together_or_apart: ChoicePair | None = Field(
        description="All methods, of which some learn tasks together or pooled, against methods "
        "for each task alone; the verdict is none with one task, or if a side has only constants, "
        "and never hurts."
    )
    together_or_pooled: ChoicePair | None = Field(
        None,
        description="All methods against pooled ones, as in `kinds`; null without a pooled method, "
        "and in reports of earlier versions.",
    )
    multi_task_or_pooled: ChoicePair | None = Field(
        description="Multi-task methods against pooled ones."
    )
    tasks: dict[str, ChoiceTask] = Field(
        description="Learning together against learning alone, by task."
    )
    new_tasks: NewTasksAnswer | None = Field(
        None, description="Who answers for tasks without rows; null unless `new_tasks` is 'common'."
    )
    task_confidence: float | None = Field(
        None,
        description="Confidence of the intervals of `tasks`; null in reports of earlier versions, "
        "which have 95 % and gains that are not drawn to their mean.",
    )
    per_task: ChoicePerTask | None = Field(
        None,
        description="Estimate of a choice for each task between learning together and alone, in "
        "reports of earlier versions.",
    )
    curve: ChoiceCurve | None = Field(
        None, description="Learning curve; null without the option `curve`."
    )
    metric: str = Field(description="Metric of all scores.")
    title: str = Field(description="Title of the metric.")
    metric_reason: str | None = Field(None, description=METRIC_REASON)
    unit: str | None = Field(None, description=UNIT)
    larger_is_better: bool = Field(description="Whether larger values of the metric are better.")
    average: str = Field(description="Units of equal weight: tasks or rows.")
    min_effect: float = Field(
        description="Minimum relevant difference, relative to the value of the second side."
    )
    without_value: list[str] = Field(
        [],
        description="Tasks for which the metric has no value, for example AUC where all held-out "
        "rows have one class; they are left out of means.",
    )
    splits: dict[str, Any] = Field(description="Options of the outer splits.")
    n_splits: int = Field(description="Number of outer splits.")
    n_inner_folds: int | None = Field(
        None, description="Folds of the training rows, in reports of earlier versions."
    )
    budget_s: float = Field(description="Processor time that was allowed, in seconds.")
    rows: ComparedRows = Field(description="Units of rows, and how many were held out.")
    few_rows: list[str] = Field(default_factory=list, description=FEW_ROWS)
    left_out: list[NotCompared] = Field(description="Methods left out, with reasons.")

    @model_validator(mode="wrap")
    @classmethod
    def _update(cls, stored: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Apply the present rule for verdicts to the report of an earlier version."""
        report = handler(stored)
        before = report.model_dump()
        after = update_choice(before)
        return report if after is before else handler(after)
