"""Models on the wire."""

from datetime import datetime
from typing import Annotated, Any, Final

import numpy as np
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from algorithms.interface import relations
from service.http import WireModel
from service.models.alias_store import NamedAlias
from service.models.store import NamedVersion, Served


class Lineage(BaseModel):
    """Where a model comes from: enough to make it again."""

    job_id: str
    base: str | None = Field(description="Id of the version whose tasks it took over.")
    dataset_id: str
    dataset_sha256: str
    algorithm: str
    params: dict[str, Any]
    seed: int
    software: dict[str, str] = Field(
        description="Versions of the code that trained it, and the number of threads it had."
    )


class Model(BaseModel):
    """A version of a model."""

    id: str
    name: str
    version: int
    aliases: list[str] = Field(description="Aliases that name this version now.")
    algorithm: str
    methods: list[str] = Field(description="What it can do: transform, predict, distances, ...")
    tasks: list[str]
    classes: dict[str, list[str | int]] = Field(
        description="Labels by task, in the order of the columns of `distances`; empty for a model "
        "without classes."
    )
    metrics: dict[str, dict[str, float | None]] = Field(
        description="Scores on the training rows, `{metric: {task: value}}`; null where a score "
        "is not a finite number."
    )
    warnings: list[str]
    stop_reason: str | None = Field(description="converged, stalled or max_iter.")
    lineage: Lineage
    artifact_sha256: str
    artifact_bytes: int
    created_at: datetime

    @classmethod
    def from_row(cls, version: NamedVersion) -> "Model":
        """Give the wire form of a version."""
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
    """Where an alias goes."""

    version: int = Field(ge=1, lt=2**31, description="Number of a version of the model.")


class Alias(BaseModel):
    """A name for a version of a model, called as NAME@ALIAS, that moves from version to version."""

    model: str
    alias: str
    version: int
    version_id: str
    moved_at: datetime

    @classmethod
    def from_row(cls, model: str, found: NamedAlias) -> "Alias":
        """Give the wire form of an alias."""
        row = found.row
        return cls(
            model=model,
            alias=row.alias,
            version=found.version,
            version_id=row.version_id,
            moved_at=row.moved_at,
        )


class Steps(BaseModel):
    """The steps of a fit, by column; long fits keep every second, fourth, ... step."""

    loop: list[str]
    iteration: list[int]
    objective: list[float | None]
    residual: list[float | None]
    elapsed_s: list[float]


class History(BaseModel):
    """How the fit of a model went."""

    stop_reason: str | None
    stop_reasons: dict[str, str] = Field(description="Of each loop of the fit.")
    fit_s: float
    peak_memory_mb: float = Field(description="Peak resident memory of the training process.")
    steps: Steps


class Relations(BaseModel):
    """How the tasks of a model are related, as far as it has learned that."""

    model: str
    version: int
    sentence: str = Field(description="The strongest tie, how many are weak, and who stands alone.")
    names: list[str] = Field(
        description="Of the outputs, the task, or task and class; related ones side by side."
    )
    strength: list[list[float]] = Field(
        description="From -1 to 1, for each pair of `names`: the scaled output kernel of a kernel "
        "machine, the cosine between two linear functions, the overlap of two subspaces."
    )
    sparsity: float = Field(description="Share of pairs whose strength is below 0.05 in size.")

    @classmethod
    def of(cls, served: Served, found: relations.Relations) -> "Relations":
        """Give the wire form of the relations in a version."""
        order = list(found.order)
        return cls(
            model=served.name,
            version=served.version,
            sentence=found.sentence,
            names=[found.names[i] for i in order],
            strength=found.strength[np.ix_(order, order)].tolist(),
            sparsity=found.sparsity,
        )


class Candidate(BaseModel):
    """Parameters that were tried, and what came of it on held-out rows."""

    params: dict[str, Any]
    n_splits: int = Field(description="Splits on which it was judged.")
    mean: dict[str, float | None] = Field(description="Mean over tasks, by metric.")
    over_rows: dict[str, float | None] = Field(description="Over the rows of all tasks as one.")
    by_task: dict[str, float | None] = Field(description="The deciding metric on each task.")


class SearchReport(BaseModel):
    """A search: what was tried, and what was best."""

    method: str = Field(description="grid, random, or halving.")
    metric: str = Field(description="What decided.")
    larger_is_better: bool
    average: str = Field(description="What counted alike: tasks, or rows.")
    n_folds: int
    repeats: int
    best: int = Field(description="Position of the best candidate.")
    candidates: list[Candidate]


#: Roles by the names that reports of earlier versions have.
_FORMER_ROLES: Final = {"itself": "candidate", "apart": "single_task", "other": "multi_task"}

MethodRole = Annotated[str, BeforeValidator(lambda role: _FORMER_ROLES.get(role, role))]


class Method(BaseModel):
    """A method that was compared, and its values on held-out rows."""

    algorithm: str
    role: MethodRole = Field(
        description="candidate: the algorithm of the job. single_task: each task learned alone. "
        "pooled: one model of the rows of all tasks. multi_task: another way of learning together. "
        "trivial: the same prediction for every row of a task."
    )
    variant: str = ""
    params: dict[str, Any] = Field(description="As given; what `selection` chose differs by split.")
    value: float | None = Field(description="The deciding metric, by the average asked for.")
    mean: dict[str, float | None] = Field(description="Mean over tasks and splits, by metric.")
    over_rows: dict[str, float | None] = Field(description="Over the rows of all tasks as one.")
    by_task: dict[str, float | None] = Field(description="The deciding metric on each task.")


class MethodLabel(BaseModel):
    """The name of a method in a comparison."""

    algorithm: str
    role: MethodRole
    variant: str = Field("", description="What tells it from others of the same name and role.")


class BestMethod(MethodLabel):
    """The method of best mean on the held-out rows."""

    value: float = Field(description="The deciding metric; of the best of several, optimistic.")
    tied: list[MethodLabel] = Field(
        description="Methods not shown to be worse: at 5 % for all pairs (Bonferroni), and by "
        "`min_effect` or more."
    )


class Gain(BaseModel):
    """How much better the candidate is than a baseline; null where there are too few splits."""

    baseline: str = Field(validation_alias=AliasChoices("baseline", "rival"))
    role: MethodRole
    variant: str = ""
    gain: float | None = Field(description="In units of the metric; positive: better.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None
    p_value: float | None = Field(
        description="Chance of so large a difference were there none (corrected resampled t)."
    )
    p_adjusted: float | None = Field(
        None, description="The same, corrected for the number of baselines (Holm)."
    )


class LeftOut(BaseModel):
    """A baseline that is not in a comparison."""

    baseline: str = Field(validation_alias=AliasChoices("baseline", "rival"))
    roles: list[str] = Field([], description="What it would have stood for.")
    reason: str


class FamilyVerdict(BaseModel):
    """The best of the methods that learn together against the best of those that learn apart."""

    verdict: str = Field(
        description="helps, hurts, equal (no difference worth naming), or unclear."
    )
    together: MethodLabel | None = Field(None, description="A method that learns together.")
    apart: MethodLabel | None = Field(None, description="A method that learns each task alone.")
    gain: float | None = Field(None, description="Of the first over the second.")
    low: float | None = Field(
        None, description="Lower end of the 95 % interval, corrected for the number of methods."
    )
    high: float | None = None
    p_value: float | None = Field(None, description="For the families (Bonferroni).")
    p_adjusted: float | None = Field(
        None, description="Of a task: corrected for the number of tasks (Benjamini-Hochberg)."
    )
    margin: float | None = Field(None, description="Smallest gain worth naming.")


class TaskVerdict(FamilyVerdict):
    """Whether learning together helps one task."""

    sentence: str


class ComparedRows(BaseModel):
    """How the rows hang together; units (equal rows, rows of one group) are not divided."""

    n_rows: int
    n_units: int
    largest_unit: int = Field(description="Rows of the largest unit.")
    n_never_held_out: int = Field(
        description="Rows that always train, since a class would have no others."
    )
    warnings: list[str] = Field(description="Where named splits divide units nevertheless.")


class Comparison(BaseModel):
    """Whether learning together helps, and which method is best."""

    verdict: str = Field(
        description="Learning together, in any form, against learning each task alone: helps, "
        "hurts, equal (no difference worth naming), or unclear."
    )
    sentences: list[str] = Field(description="The same in words.")
    metric: str
    title: str
    larger_is_better: bool
    average: str = Field(description="What counted alike: tasks, or rows.")
    min_effect: float = Field(
        0.0, description="Smallest difference worth naming, as a part of the metric's value."
    )
    splits: dict[str, Any]
    n_splits: int
    rows: ComparedRows | None = None
    methods: list[Method]
    sharing: FamilyVerdict | None = Field(None, description="What the verdict rests on.")
    candidate: FamilyVerdict | None = Field(
        None, description="The same for the algorithm of the job alone."
    )
    best: BestMethod | None = None
    overall: list[Gain]
    tasks: dict[str, TaskVerdict]
    by_task: dict[str, list[Gain]]
    left_out: list[LeftOut] = Field(description="Baselines that do not fit the tasks, and why.")


class Evaluation(BaseModel):
    """What the algorithm came to on held-out rows."""

    splits: dict[str, Any]
    n_splits: int
    rows: ComparedRows | None = None
    params: dict[str, Any] = Field(description="As given; what `selection` chose differs by split.")
    mean: dict[str, float | None] = Field(description="Mean over tasks and splits, by metric.")
    over_rows: dict[str, float | None] = Field(description="Over the rows of all tasks as one.")
    by_task: dict[str, dict[str, float | None]] = Field(description="`{metric: {task: value}}`.")
    without_value: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Tasks that a metric has no value of (constant targets, say); means leave "
        "them out.",
    )


class Report(BaseModel):
    """What was tried before a model was trained, and how it compares."""

    search: SearchReport | None = None
    comparison: Comparison | None = None
    evaluation: Evaluation | None = None
