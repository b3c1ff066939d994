"""API schemas of comparisons and evaluations."""

from typing import Annotated, Any, Final, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    model_validator,
)

from algorithms.evaluation.comparison.verdict_sentences import update_comparison
from algorithms.evaluation.scores.ratios import MIN_RATIO_ROWS

#: Names of roles in reports of earlier versions.
_FORMER_ROLES: Final = {"itself": "candidate", "apart": "single_task", "other": "multi_task"}

VERDICTS: Final = (
    "helps, hurts, equal (no relevant difference), unclear, or none if there is a `reason` against "
    "any verdict."
)
REASON: Final = "Reason why there is no verdict, and so no number; null with a verdict."

FEW_ROWS: Final = (
    f"Tasks with fewer than {MIN_RATIO_ROWS} held-out rows: too few for ratios (R², explained "
    "variance, AUC, retained variance), which are null for them and leave them out of means."
)

UNIT: Final = (
    "Name of the target, in whose unit RMSE, widths of intervals and their gains are; null for "
    "classes, and for targets without a name."
)

METRIC_REASON: Final = "Why this is the default metric, if a class is rare; else null."

MethodRole = Annotated[str, BeforeValidator(lambda role: _FORMER_ROLES.get(role, role))]


class Method(BaseModel):
    """A compared method, with scores on held-out rows."""

    algorithm: str = Field(description="Algorithm name.")
    role: MethodRole = Field(
        description="candidate: the algorithm of the job. single_task: a model per task. pooled: "
        "one model of the rows of all tasks. multi_task: another multi-task method. trivial: a "
        "constant prediction per task."
    )
    variant: str = Field("", description="Distinguishes methods of the same name and role.")
    params: dict[str, Any] = Field(
        description="Given parameters; `selection` may choose other values in each split."
    )
    value: float | None = Field(description="The selection metric, averaged as requested.")
    mean: dict[str, float | None] = Field(description="Mean over tasks and splits, by metric.")
    over_rows: dict[str, float | None] = Field(description="Metrics over the rows of all tasks.")
    by_task: dict[str, float | None] = Field(description="The selection metric on each task.")


class MethodLabel(BaseModel):
    """The name of a method in a comparison."""

    algorithm: str = Field(description="Algorithm name.")
    role: MethodRole = Field(description="Role of the method, as in `methods`.")
    variant: str = Field("", description="Distinguishes methods of the same name and role.")


class BestMethod(MethodLabel):
    """The method with the best mean score on held-out rows."""

    value: float = Field(description="The selection metric; optimistic, as the best of several.")
    tied: list[MethodLabel] = Field(
        description="Methods that are not significantly worse at 5 % (Bonferroni) by at least "
        "`min_effect`."
    )


class Gain(BaseModel):
    """Gain of the candidate over a baseline; null if there are too few splits."""

    baseline: str = Field(
        validation_alias=AliasChoices("baseline", "rival"),
        description="Algorithm name of the baseline.",
    )
    role: MethodRole = Field(description="Role of the baseline, as in `methods`.")
    variant: str = Field("", description="Distinguishes baselines of the same name and role.")
    gain: float | None = Field(description="Difference in units of the metric; positive is better.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    p_value: float | None = Field(description="p-value of the corrected resampled t-test.")
    p_adjusted: float | None = Field(
        None, description="p-value adjusted for the number of baselines (Holm)."
    )


class LeftOut(BaseModel):
    """A baseline excluded from a comparison."""

    baseline: str = Field(
        validation_alias=AliasChoices("baseline", "rival"),
        description="Algorithm name of the baseline.",
    )
    roles: list[str] = Field([], description="Roles that it would have had.")
    reason: str = Field(description="Reason why it was excluded.")


class FamilyVerdict(BaseModel):
    """Comparison of the best multi-task and the best single-task method."""

    verdict: str = Field(description=VERDICTS)
    reason: str | None = Field(None, description=REASON)
    together: MethodLabel | None = Field(None, description="The best multi-task method.")
    apart: MethodLabel | None = Field(None, description="The best single-task method.")
    gain: float | None = Field(None, description="Gain of the first over the second.")
    low: float | None = Field(
        None, description="Lower end of the 95 % interval, corrected for the number of methods."
    )
    high: float | None = Field(
        None, description="Upper end of the 95 % interval, corrected for the number of methods."
    )
    p_value: float | None = Field(
        None, description="p-value, adjusted for the number of methods (Bonferroni)."
    )
    p_adjusted: float | None = Field(
        None, description="For a task: adjusted for the number of tasks (Benjamini-Hochberg)."
    )
    margin: float | None = Field(None, description="Minimum relevant gain.")


class TaskVerdict(FamilyVerdict):
    """Effect of multi-task learning on one task."""

    sentence: str = Field(description="The verdict in words.")


class ComparedRows(BaseModel):
    """Units of rows (equal rows, or rows of one group), which splits never divide."""

    n_rows: int = Field(description="Number of rows of all tasks.")
    n_units: int = Field(description="Number of units.")
    largest_unit: int = Field(description="Number of rows of the largest unit.")
    n_never_held_out: int = Field(
        description="Number of rows never held out, since their class has no other rows."
    )
    warnings: list[str] = Field(description="Warnings about given splits that divide units.")
    equal_rows: str | None = Field(
        None, description="How many rows are equal to another, and which are held out together."
    )


class Comparison(BaseModel):
    """Effect of multi-task learning, and the best method."""

    verdict: str = Field(
        description="Effect of the best multi-task method compared with single-task learning: "
        "helps, hurts, equal (no relevant difference), unclear, or none (see `sharing.reason`)."
    )
    sentences: list[str] = Field(description="The result in words.")
    metric: str = Field(description="Metric of the verdict.")
    title: str = Field(description="Title of the metric.")
    metric_reason: str | None = Field(None, description=METRIC_REASON)
    unit: str | None = Field(None, description=UNIT)
    larger_is_better: bool = Field(description="Whether larger values of the metric are better.")
    average: str = Field(description="Units of equal weight: tasks or rows.")
    min_effect: float = Field(
        0.0, description="Minimum relevant difference, relative to the value of the metric."
    )
    splits: dict[str, Any] = Field(description="Options of the splits.")
    n_splits: int = Field(description="Number of splits.")
    without_value: list[str] = Field(
        [],
        description="Tasks for which the metric has no value, for example AUC where all held-out "
        "rows have one class; they are left out of means.",
    )
    rows: ComparedRows | None = Field(
        None, description="Units of rows, and how many were held out."
    )
    few_rows: list[str] = Field(default_factory=list, description=FEW_ROWS)
    methods: list[Method] = Field(description="The compared methods, with the candidate first.")
    sharing: FamilyVerdict | None = Field(None, description="Comparison behind the verdict.")
    candidate: FamilyVerdict | None = Field(
        None, description="The same comparison for the algorithm of the job only."
    )
    best: BestMethod | None = Field(
        None, description="The best method; null if no method has a score."
    )
    overall: list[Gain] = Field(
        description="Gain of the candidate over each baseline, on all tasks."
    )
    tasks: dict[str, TaskVerdict] = Field(description="Effect of multi-task learning, by task.")
    by_task: dict[str, list[Gain]] = Field(
        description="Gain of the candidate over each baseline, by task."
    )
    left_out: list[LeftOut] = Field(description="Baselines that do not support the tasks.")

    @model_validator(mode="wrap")
    @classmethod
    def _update(cls, stored: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Apply the present rule for verdicts to the report of an earlier version."""
        report = handler(stored)
        before = report.model_dump()
        after = update_comparison(before)
        return report if after is before else handler(after)


class Interval(BaseModel):
    """A 95 % interval."""

    low: float | None = Field(description="Lower end; null with fewer than two splits.")
    high: float | None = Field(description="Upper end; null with fewer than two splits.")


class LeftOutTasks(BaseModel):
    """Scores on the rows of tasks that are left out of the training in turn."""

    failed: str | None = Field(description="Why there are no scores; null if there are.")
    mean: dict[str, float | None] = Field(description="Mean over tasks, by metric.")
    over_rows: dict[str, float | None] = Field(description="Metrics over the rows of all tasks.")
    by_task: dict[str, dict[str, float | None]] = Field(description="`{metric: {task: value}}`.")


class Evaluation(BaseModel):
    """Scores of the algorithm on held-out rows."""

    sentences: list[str] = Field(
        default_factory=list, description="What the scores leave out, in words."
    )
    unit: str | None = Field(None, description=UNIT)
    splits: dict[str, Any] = Field(description="Options of the splits.")
    n_splits: int = Field(description="Number of splits.")
    rows: ComparedRows | None = Field(
        None, description="Units of rows, and how many were held out."
    )
    few_rows: list[str] = Field(default_factory=list, description=FEW_ROWS)
    params: dict[str, Any] = Field(
        description="Given parameters; `selection` may choose other values in each split."
    )
    mean: dict[str, float | None] = Field(description="Mean over tasks and splits, by metric.")
    interval: dict[str, Interval] = Field(
        default_factory=dict,
        description="95 % interval of `mean`, by metric, corrected for splits that share rows.",
    )
    over_rows: dict[str, float | None] = Field(description="Metrics over the rows of all tasks.")
    by_task: dict[str, dict[str, float | None]] = Field(description="`{metric: {task: value}}`.")
    without_value: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Tasks for which a metric is undefined, for example with constant targets; "
        "they are excluded from means.",
    )
    left_out_tasks: LeftOutTasks | None = Field(
        None,
        description="Scores on tasks that are left out, beside those on left-out rows; null unless "
        "`new_tasks` is `common`.",
    )
