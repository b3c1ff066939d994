"""Jobs on the wire."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from algorithms.evaluation.comparison import Compare, Evaluate
from algorithms.evaluation.search import Search
from service.http import WireModel
from service.jobs.queue.states import CANCELLING, FINAL, JobState
from service.jobs.studies.child_jobs import ADAPT, INFER
from service.processes import ProcessIdentity
from service.rows import AttemptRow, EventRow, JobRow

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
#: A model, or a version of it by an alias.
CALLED_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(@[A-Za-z][A-Za-z0-9_-]{0,63})?$"


class WarmStart(WireModel):
    """A stored model to go on from."""

    model: str = Field(pattern=CALLED_PATTERN, description="Name of the model, or NAME@ALIAS.")
    version: int | None = Field(None, ge=1, lt=2**31, description="The latest without it.")


def _as_wish(value: Any) -> Any:
    """Read true as a wish for the usual way, false as none."""
    if isinstance(value, bool):
        return {} if value else None
    return value


class JobLimits(WireModel):
    """When a job begins, and what it may take."""

    priority: int = Field(0, ge=-100, le=100, description="Higher ones begin sooner.")
    timeout_s: float | None = Field(None, gt=0, description="Time limit of one attempt.")
    memory_mb: int | None = Field(
        None, ge=512, le=2**20, description="Memory limit of the work, in MiB."
    )
    max_attempts: int | None = Field(
        None, ge=1, le=20, description="Tries before a job whose worker is lost has failed."
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Threads of the work; without it, its share of the machine that first runs "
        "it. The same seed on the same kind of machine, with the same versions and the same number "
        "of threads, gives the same model, bit for bit.",
    )


class JobSpec(JobLimits):
    """What to train, on what, and within which limits."""

    dataset_id: str = Field(max_length=40, description="A dataset that is ready.")
    algorithm: str = Field(max_length=64, description="A name from GET /v1/algorithms.")
    params: dict[str, Any] = Field(
        default_factory=dict, description="Parameters of the algorithm; defaults for the rest."
    )
    model: str = Field(
        pattern=NAME_PATTERN,
        description="Name under which the trained model is published, as its next version.",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of everything random in the fit.")
    search: Search | None = Field(
        None,
        description="Try parameters by cross-validation, as parts spread over the pool, and train "
        "with the best.",
    )
    warm_start: WarmStart | None = Field(
        None,
        description="Take the tasks of the dataset into this model, with what it has learned "
        "frozen, in place of a fit; its parameters hold.",
    )
    compare: Annotated[
        Compare | None,
        BeforeValidator(_as_wish, json_schema_input_type=bool | Compare | None),
    ] = Field(
        None,
        description="Judge it beside methods that learn each task alone, or all tasks as one, on "
        "the same held-out rows; the model's report says whether sharing helps.",
    )
    evaluate: Annotated[
        Evaluate | None,
        BeforeValidator(_as_wish, json_schema_input_type=bool | Evaluate | None),
    ] = Field(
        None,
        description="Judge it on held-out rows, with every metric that suits; what is trained "
        "learns from all rows.",
    )


class Valid(BaseModel):
    """A specification that would be taken as it is."""

    params: dict[str, Any] = Field(description="Parameters of the algorithm, with defaults.")
    warnings: list[str] = Field(description="What the user should know of what would be trained.")


class Progress(BaseModel):
    """How far a running job is."""

    loop: str = Field(description="Part of the fit that runs now.")
    iteration: int
    objective: float | None
    residual: float | None = Field(description="What the iteration drives towards zero.")
    fraction: float = Field(description="Estimated part of the whole that is done, 0 to 1.")
    elapsed_s: float
    remaining_s: float | None = Field(description="Estimate of the rest.")


class JobError(BaseModel):
    """Why a job, or its last attempt, did not succeed."""

    code: str
    detail: str
    attempt: int
    task: str | None = None
    row: int | None = None
    column: str | int | None = None
    field: str | None = None


class Attempt(BaseModel):
    """One try at a job."""

    attempt: int
    worker: str = Field(description="Host and process that supervised it.")
    outcome: str = Field(
        description="running, succeeded, failed, cancelled, timed_out; lost, where the worker or "
        "the training died; released, where it was stopped to go on elsewhere, uncharged."
    )
    error: JobError | None
    started_at: datetime
    finished_at: datetime | None

    @classmethod
    def from_row(cls, row: AttemptRow) -> "Attempt":
        """Return the wire form of a row."""
        return cls(
            attempt=row.attempt,
            worker=ProcessIdentity.from_text(row.worker).name(),
            outcome=row.outcome,
            error=None if row.error is None else JobError(**row.error),
            started_at=row.started_at,
            finished_at=row.finished_at,
        )


class Base(BaseModel):
    """The version of a model that a job goes on from."""

    model: str
    version: int
    version_id: str

    @classmethod
    def from_plan(cls, plan: dict[str, Any] | None) -> "Base | None":
        """Return the wire form of a plan, if it is of such a job."""
        if plan is None or plan["kind"] != ADAPT or "model" not in plan:
            return None
        return cls(model=plan["model"], version=plan["version"], version_id=plan["version_id"])


class Inference(BaseModel):
    """A method of a version over the tasks of a dataset."""

    version_id: str
    method: str
    tasks: dict[str, str] | None = Field(
        description="Tasks of the dataset with the task that each is called as; null where every "
        "one is called by its own name."
    )

    @classmethod
    def from_plan(cls, plan: dict[str, Any]) -> "Inference":
        """Return the wire form of a plan."""
        return cls(version_id=plan["version_id"], method=plan["method"], tasks=plan["mapping"])


class Job(BaseModel):
    """A job as it stands."""

    id: str
    state: str = Field(
        description="waiting (for its parts), queued, submitted, running, cancelling; then "
        "succeeded, failed, cancelled or timed_out for good."
    )
    is_final: bool
    kind: str = Field(description="train; part, of another job; or infer, a model over a dataset.")
    dataset_id: str
    algorithm: str
    params: dict[str, Any]
    seed: int
    model: str
    version: int | None = Field(
        description="Version of the model it made, once it succeeded; of an inference, the version "
        "that is called."
    )
    inference: Inference | None = Field(description="What an inference computes.")
    warm_start: Base | None = Field(description="What new tasks are taken into, in place of a fit.")
    priority: int
    timeout_s: float
    memory_mb: int
    attempt: int
    max_attempts: int
    threads: int | None = Field(
        description="Threads of every attempt: as asked for, or else as the first one had."
    )
    parent: str | None = Field(description="The job that this one is a part of.")
    parts: dict[str, int] = Field(description="Number of its parts by state.")
    result: dict[str, Any] | None = Field(
        description="What a part or an inference came to; training makes a model."
    )
    output: str | None = Field(description="Where the outputs of an inference are, as Parquet.")
    attempts: list[Attempt] = Field(description="Every try at it, in order.")
    progress: Progress | None
    error: JobError | None
    warnings: list[str] = Field(
        description="What the user should know of what is trained; the model has them too."
    )
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def from_row(
        cls,
        row: JobRow,
        version: int | None,
        attempts: Sequence[AttemptRow],
        parts: dict[str, int],
    ) -> "Job":
        """Return the wire form of a row, with its version, its attempts and its parts."""
        inference = row.plan if (row.plan or {}).get("kind") == INFER else None
        is_cancelling = row.is_cancel_requested and JobState(row.state) not in FINAL
        return cls(
            id=row.id,
            state=CANCELLING if is_cancelling else row.state,
            is_final=JobState(row.state) in FINAL,
            kind="part" if row.parent_id else "train" if inference is None else INFER,
            dataset_id=row.dataset_id,
            algorithm=row.algorithm,
            params=row.params,
            seed=row.seed,
            model=row.model_name,
            version=version if inference is None else inference["version"],
            inference=None if inference is None else Inference.from_plan(inference),
            warm_start=Base.from_plan(row.plan),
            priority=row.priority,
            timeout_s=row.timeout_s,
            memory_mb=row.memory_mb,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            threads=row.threads,
            parent=row.parent_id,
            parts=parts,
            result=row.result,
            output=None if row.output_blob_id is None else f"/v1/jobs/{row.id}/output",
            attempts=[Attempt.from_row(attempt) for attempt in attempts],
            progress=None if row.progress is None else Progress(**row.progress),
            error=None if row.error is None else JobError(**row.error),
            warnings=row.warnings,
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
        )


class Event(BaseModel):
    """Something that happened to a job."""

    id: int
    kind: str = Field(description="state, progress or cancel.")
    attempt: int
    created_at: datetime
    data: dict[str, Any]

    @classmethod
    def from_row(cls, row: EventRow) -> "Event":
        """Return the wire form of a row."""
        return cls(
            id=row.id,
            kind=row.kind,
            attempt=row.attempt,
            created_at=row.created_at,
            data=row.data,
        )


class EventPage(BaseModel):
    """Events in order, and where the next page begins."""

    items: list[Event]
    next_after: int | None = Field(description="Give it as `after` to go on; null if none is left.")
