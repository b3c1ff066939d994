"""API schemas of models."""

from datetime import datetime
from typing import Annotated, Any, Final

import numpy as np
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from algorithms.interface import relations
from service.http.schemas import WireModel
from service.models.alias_store import NamedAlias
from service.models.calibration_schemas import CalibrationReport
from service.models.store import NamedVersion, ServableVersion


class Lineage(BaseModel):
    """Origin of a model: enough to reproduce it."""

    job_id: str = Field(description="Id of the job that trained it.")
    base: str | None = Field(description="Id of the version that it was adapted from.")
    dataset_id: str = Field(description="Id of the training dataset.")
    dataset_sha256: str = Field(description="SHA-256 of the tasks in that dataset.")
    algorithm: str = Field(description="Algorithm name.")
    params: dict[str, Any] = Field(description="Parameters of the algorithm, with defaults.")
    seed: int = Field(description="Random seed of the fit.")
    software: dict[str, str] = Field(
        description="Versions of the software, and the number of threads."
    )


class Model(BaseModel):
    """A version of a model."""

    id: str = Field(description="Id of this version.")
    name: str = Field(description="Model name.")
    version: int = Field(description="Version number, from 1.")
    aliases: list[str] = Field(description="Aliases that point to this version.")
    algorithm: str = Field(description="Algorithm name.")
    methods: list[str] = Field(description="Methods, such as transform and predict.")
    tasks: list[str] = Field(description="Names of the tasks that it was trained on.")
    classes: dict[str, list[str | int]] = Field(
        description="Labels by task, in the order of output columns that are classes; empty for a "
        "model without classes."
    )
    metrics: dict[str, dict[str, float | None]] = Field(
        description="Scores on the training rows, `{metric: {task: value}}`; null where a score "
        "is not a finite number."
    )
    warnings: list[str] = Field(description="Warnings about the data, the parameters and the fit.")
    preparation: dict[str, Any] | None = Field(
        description="Options, raw columns and prepared columns; null for a model of plain numbers."
    )
    stop_reason: str | None = Field(description="converged, stalled or max_iter.")
    lineage: Lineage = Field(description="Job, dataset and parameters of the training.")
    artifact_sha256: str = Field(description="SHA-256 of the artifact.")
    artifact_bytes: int = Field(description="Size of the artifact, in bytes.")
    created_at: datetime = Field(description="Time of publication.")

    @classmethod
    def from_row(cls, version: NamedVersion) -> "Model":
        """Return the schema of a version."""
        row = version.row
        return cls(
            id=row.id,
            name=version.name,
            version=row.version,
            aliases=list(version.aliases),
            algorithm=row.algorithm,
            methods=row.methods,
            tasks=row.tasks,
            classes=row.classes,
            metrics=row.metrics,
            warnings=row.warnings,
            preparation=row.preparation,
            stop_reason=row.history["stop_reason"],
            lineage=Lineage(
                job_id=row.job_id,
                base=row.base_id,
                dataset_id=row.dataset_id,
                dataset_sha256=row.dataset_sha256,
                algorithm=row.algorithm,
                params=row.params,
                seed=row.seed,
                software=row.software,
            ),
            artifact_sha256=row.artifact_sha256,
            artifact_bytes=row.artifact_bytes,
            created_at=row.created_at,
        )


class AliasSpec(WireModel):
    """Target of an alias."""

    version: int = Field(ge=1, lt=2**31, description="Version number of the model.")


class Alias(BaseModel):
    """A name of a model version, used as NAME@ALIAS, that can move to another version."""

    model: str = Field(description="Model name.")
    alias: str = Field(description="Name of the alias.")
    version: int = Field(description="Number of the version that it points to.")
    version_id: str = Field(description="Id of that version.")
    moved_at: datetime = Field(description="Time at which the alias was created or last moved.")

    @classmethod
    def from_row(cls, model: str, found: NamedAlias) -> "Alias":
        """Return the schema of an alias."""
        row = found.row
        return cls(
            model=model,
            alias=row.alias,
            version=found.version,
            version_id=row.version_id,
            moved_at=row.moved_at,
        )


class Steps(BaseModel):
    """Steps of a fit, by column; long fits keep every second, fourth, ... step."""

    loop: list[str] = Field(description="Name of the loop, by step.")
    iteration: list[int] = Field(description="Iteration within the loop, by step.")
    objective: list[float | None] = Field(description="Objective, by step; null where unknown.")
    residual: list[float | None] = Field(
        description="Quantity that the iteration reduces to zero, by step; null where unknown."
    )
    elapsed_s: list[float] = Field(description="Seconds since the start of the fit, by step.")


class History(BaseModel):
    """Training history of a model."""

    stop_reason: str | None = Field(
        description="converged, stalled or max_iter; null for a fit without iterations."
    )
    stop_reasons: dict[str, str] = Field(description="Stop reason of each loop.")
    fit_s: float = Field(description="Duration of the fit, in seconds.")
    peak_memory_mb: float = Field(description="Peak resident memory of the training process.")
    steps: Steps = Field(description="Recorded steps of the fit.")


class Importance(BaseModel):
    """Importance of the columns of a model, the most important one first.

    It is computed from rows that the model was trained with.
    """

    model: str = Field(description="Model name.")
    version: int = Field(description="Version number.")
    sentence: str = Field(description="The most important columns in words.")
    kind: str = Field(
        description="coefficients: standard deviation of what a column adds to the prediction, "
        "which is the coefficient of the standardised column; of numbers relative to the standard "
        "deviation of the targets. permutation: fall of the metric if the values of the column are "
        "permuted."
    )
    metric: str | None = Field(
        description="Metric of the permutations: r2, auc or accuracy; null for coefficients."
    )
    columns: list[str] = Field(
        description="Names of the columns of the dataset; a column that was encoded as several has "
        "one importance."
    )
    shared: list[float | None] = Field(description="Mean importance over the tasks, by column.")
    tasks: dict[str, list[float | None]] = Field(
        description="Importance by task and column; null for a column that a task does not have, "
        "and where the metric is not defined."
    )
    coefficients: dict[str, list[float | None]] | None = Field(
        description="Importance with the sign of the coefficient; null in it where a column has "
        "several coefficients. Null for permutations."
    )
    n_rows: dict[str, int] = Field(description="Number of training rows that were used, by task.")
    n_repeats: int | None = Field(description="Permutations of each column; null for coefficients.")
    n_columns: int = Field(
        description="Number of all columns, of which `columns` may have the most important only."
    )

    @classmethod
    def of(cls, version: NamedVersion, stored: dict[str, Any]) -> "Importance":
        """Return the schema of the stored importance of a version."""
        return cls(model=version.name, version=version.row.version, **stored)


class Relations(BaseModel):
    """Relations between the tasks of a model."""

    model: str = Field(description="Model name.")
    version: int = Field(description="Version number.")
    sentence: str = Field(description="Summary of the strengths in words.")
    names: list[str] = Field(
        description="Task, or task and class, of each output, with related outputs adjacent."
    )
    strength: list[list[float]] = Field(
        description="Strength from -1 to 1 for each pair of `names`: the scaled output kernel of a "
        "kernel machine, the cosine between two linear functions, the overlap of two subspaces."
    )
    sparsity: float = Field(description="Share of pairs with an absolute strength below 0.05.")

    @classmethod
    def of(cls, served: ServableVersion, found: relations.Relations) -> "Relations":
        """Return the schema of the relations in a version."""
        order = list(found.order)
        return cls(
            model=served.name,
            version=served.version,
            sentence=found.sentence,
            names=[found.names[i] for i in order],
            strength=found.strength[np.ix_(order, order)].tolist(),
            sparsity=found.sparsity,
        )


class PlotInfo(BaseModel):
    """A plot of a model."""

    name: str = Field(description="Name of the plot in its URL.")
    title: str = Field(description="Title of the plot.")
    sentence: str = Field(description="What it shows of this model.")


class Plots(BaseModel):
    """The plots that there are of a model."""

    plots: list[PlotInfo] = Field(description="Plots, the most telling first.")


class Candidate(BaseModel):
    """Evaluated parameters, with scores on held-out rows."""

    params: dict[str, Any] = Field(description="Parameters of the candidate.")
    n_splits: int = Field(description="Number of splits on which it was evaluated.")
    mean: dict[str, float | None] = Field(description="Mean over tasks, by metric.")
    over_rows: dict[str, float | None] = Field(description="Metrics over the rows of all tasks.")
    by_task: dict[str, float | None] = Field(description="The selection metric on each task.")
    failed: str | None = Field(
        None, description="Why a fit failed; such a candidate is left out of the choice."
    )


class SearchReport(BaseModel):
    """Results of a parameter search."""

    method: str = Field(description="grid, random, or halving.")
    metric: str = Field(description="Selection metric.")
    larger_is_better: bool = Field(description="Whether larger values of the metric are better.")
    average: str = Field(description="What has equal weight: tasks or rows.")
    n_folds: int = Field(description="Number of folds.")
    repeats: int = Field(description="Number of repetitions of the cross-validation.")
    best: int = Field(description="Index of the best candidate.")
    candidates: list[Candidate] = Field(
        description="All candidates, in the order in which they were generated."
    )
    warnings: list[str] = Field(
        default_factory=list,
        description="Candidates that failed, and values chosen at an end of those that were tried.",
    )


#: Names of roles in reports of earlier versions.
_FORMER_ROLES: Final = {"itself": "candidate", "apart": "single_task", "other": "multi_task"}

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
    params: dict[str, Any] = Field(description="As given; `selection` may choose others per split.")
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
    reason: str = Field(description="Why it was excluded.")


class FamilyVerdict(BaseModel):
    """Comparison of the best multi-task and the best single-task method."""

    verdict: str = Field(description="helps, hurts, equal (no relevant difference), or unclear.")
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


class Comparison(BaseModel):
    """Effect of multi-task learning, and the best method."""

    verdict: str = Field(
        description="Effect of the best multi-task method compared with single-task learning: "
        "helps, hurts, equal (no relevant difference), or unclear."
    )
    sentences: list[str] = Field(description="The result in words.")
    metric: str = Field(description="Metric of the verdict.")
    title: str = Field(description="Title of the metric.")
    larger_is_better: bool = Field(description="Whether larger values of the metric are better.")
    average: str = Field(description="What has equal weight: tasks or rows.")
    min_effect: float = Field(
        0.0, description="Minimum relevant difference, relative to the value of the metric."
    )
    splits: dict[str, Any] = Field(description="Options of the splits.")
    n_splits: int = Field(description="Number of splits.")
    rows: ComparedRows | None = Field(
        None, description="Units of rows, and how many were held out."
    )
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
    left_out: list[LeftOut] = Field(description="Baselines that do not support the tasks, and why.")


class Interval(BaseModel):
    """A 95 % interval."""

    low: float | None = Field(description="Lower end; null with fewer than two splits.")
    high: float | None = Field(description="Upper end; null with fewer than two splits.")


class Evaluation(BaseModel):
    """Scores of the algorithm on held-out rows."""

    splits: dict[str, Any] = Field(description="Options of the splits.")
    n_splits: int = Field(description="Number of splits.")
    rows: ComparedRows | None = Field(
        None, description="Units of rows, and how many were held out."
    )
    params: dict[str, Any] = Field(description="As given; `selection` may choose others per split.")
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


class ChoiceEstimate(BaseModel):
    """Score of the whole choice, made anew in every split without the held-out rows."""

    value: float | None = Field(description="Mean over splits.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    chosen: list[MethodLabel] = Field(description="The method that was chosen in each split.")


class LeaderboardRow(MethodLabel):
    """A method of an automatic choice, with its scores on held-out rows."""

    value: float | None = Field(description="Mean over splits. The best of many is optimistic.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    inner: float | None = Field(
        description="Score in cross-validation of all rows, by which the method is chosen."
    )
    n_task_wins: int = Field(description="Number of tasks in which it has the best mean.")
    n_chosen: int = Field(description="Number of splits in which it was chosen.")
    fit_s: float = Field(description="Processor time of one fit with selected parameters, in s.")
    predict_s: float = Field(description="Processor time of predictions for 1,000 rows, in s.")
    total_s: float = Field(description="Processor time of all its fits and predictions, in s.")
    params: dict[str, Any] = Field(description="Parameters selected with all rows.")


class ChoicePair(BaseModel):
    """Comparison of two choices, each made among the methods of a side by inner scores."""

    verdict: str = Field(description="helps, hurts, equal (no relevant difference), or unclear.")
    first: MethodLabel = Field(description="Choice of the first side with all rows.")
    second: MethodLabel = Field(description="Choice of the second side with all rows.")
    first_value: float | None = Field(description="Score of the first choice on held-out rows.")
    second_value: float | None = Field(description="Score of the second choice.")
    gain: float | None = Field(description="Gain of the first over the second.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    p_value: float | None = Field(description="p-value of the corrected resampled t-test.")
    margin: float | None = Field(description="Minimum relevant gain.")


class ChoiceTask(BaseModel):
    """Gain of learning together over learning alone on one task."""

    verdict: str = Field(description="helps, hurts, equal (no relevant difference), or unclear.")
    gain: float | None = Field(description="Gain of learning together.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    p_value: float | None = Field(description="p-value of the corrected resampled t-test.")
    p_adjusted: float | None = Field(
        description="p-value adjusted for the number of tasks (Benjamini-Hochberg)."
    )
    margin: float | None = Field(description="Minimum relevant gain.")


class ChoicePerTask(BaseModel):
    """Choice for each task whether it is learned together with the others or alone."""

    verdict: str = Field(
        description="Effect against one method for all tasks: helps, hurts, equal, or unclear."
    )
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
    reason: str = Field(description="Why it was left out.")


class CurvePoint(BaseModel):
    """Scores with a share of the training rows of each task."""

    share: float = Field(description="Share of the training rows.")
    rows: float = Field(description="Mean number of training rows per task.")
    together: float = Field(description="Score of the choice among methods that learn together.")
    apart: float = Field(description="Score of the choice among methods that learn alone.")
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

    reason: str | None = Field(description="Why there is no curve; null if there is one.")
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
    low: float | None = Field(None, description="Lower end of its 95 % interval.")
    high: float | None = Field(None, description="Upper end of its 95 % interval.")
    rows_needed: float | None = Field(
        None, description="Rows per task that would show a gain which is not shown yet."
    )
    tasks_factor: float | None = Field(
        None, description="How many times as many tasks would show it."
    )
    methods: list[MethodLabel] = Field(description="Methods that the budget allowed.")
    left_out: list[NotCompared] = Field(description="Methods that are not on the curve, and why.")


class LearnedAlone(BaseModel):
    """How some tasks of a model are learned alone, while the others are learned together."""

    algorithm: str = Field(description="Algorithm name.")
    variant: str = Field("", description="Distinguishes methods of the same name and role.")
    params: dict[str, Any] = Field(description="Parameters selected with all rows.")
    tasks: list[str] = Field(description="Names of these tasks.")


class Choice(BaseModel):
    """Automatic choice of the algorithm."""

    chosen: MethodLabel = Field(
        description="The chosen method. The role per_task: learned together by this algorithm, or "
        "alone, as `alone` says."
    )
    alone: LearnedAlone | None = Field(
        None, description="Tasks that another method learns alone; null if all have the same one."
    )
    estimate: ChoiceEstimate = Field(description="Expected score of the chosen model.")
    sentences: list[str] = Field(description="The result in words.")
    leaderboard: list[LeaderboardRow] = Field(description="All methods, the best score first.")
    choice_or_best: ChoicePair | None = Field(
        None,
        description="The whole choice against the first row of the leaderboard. That one is the "
        "best of many, so the comparison is biased against the choice.",
    )
    together_or_apart: ChoicePair | None = Field(
        description="Methods that learn tasks together or pooled, against those that learn each "
        "task alone; null if a side has no method."
    )
    multi_task_or_pooled: ChoicePair | None = Field(
        description="Multi-task methods against pooled ones; null if a side has no method."
    )
    tasks: dict[str, ChoiceTask] = Field(
        description="Learning together against learning alone, by task."
    )
    per_task: ChoicePerTask | None = Field(
        None,
        description="Estimate of a choice for each task between learning together and alone. The "
        "trained model has it if it was chosen (`alone`). Null if a side has no method.",
    )
    curve: ChoiceCurve | None = Field(
        None, description="Learning curve; null without the option `curve`."
    )
    metric: str = Field(description="Metric of all scores.")
    title: str = Field(description="Title of the metric.")
    larger_is_better: bool = Field(description="Whether larger values of the metric are better.")
    average: str = Field(description="What has equal weight: tasks or rows.")
    min_effect: float = Field(
        description="Minimum relevant difference, relative to the value of the second side."
    )
    splits: dict[str, Any] = Field(description="Options of the outer splits.")
    n_splits: int = Field(description="Number of outer splits.")
    n_inner_folds: int = Field(description="Folds of the training rows.")
    budget_s: float = Field(description="Processor time that was allowed, in seconds.")
    rows: ComparedRows = Field(description="Units of rows, and how many were held out.")
    left_out: list[NotCompared] = Field(description="Methods that were not compared, and why.")


class TaskPredictions(BaseModel):
    """Held-out rows of a task, predicted by models that had not seen them."""

    rows: list[int] = Field(description="Positions of the rows in the task, from 0.")
    true: list[str | int | float] = Field(description="Targets.")
    predicted: list[str | int | float] = Field(description="Predictions.")
    scores: list[float | None] = Field(
        description="Decision function of the second of two classes; null elsewhere."
    )


class Predictions(BaseModel):
    """A sample of the predictions for held-out rows, evenly spaced."""

    n_rows: int = Field(description="Number of held-out rows of which these are a sample.")
    tasks: dict[str, TaskPredictions] = Field(description="Rows by task.")


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
    calibration: CalibrationReport | None = Field(
        None,
        description="Quality of probabilities, and levels; null without calibration.",
    )
    predictions: Predictions | None = Field(
        None,
        description="Predictions for held-out rows; null without evaluation and comparison.",
    )
