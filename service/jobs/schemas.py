"""API schemas of jobs, with their attempts and events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from service.errors.codes import remedy_of
from service.jobs.queue.store import has_race
from service.jobs.studies.child_jobs import ADAPT, INFER
from service.processes.lifetime import ProcessIdentity
from service.storage.job_states import FINAL, JobState, ShownJobState
from service.storage.tables import AttemptRow, EventRow, JobRow


class BestSoFar(BaseModel):
    """The best method of its kind so far."""

    kind: str = Field(
        description="`multi_task`, `pooled`, `single_task`, or `trivial`: it ignores the columns."
    )
    algorithm: str = Field(description="Algorithm name.")
    role: str = Field(description="Role of the method.")
    variant: str = Field(description="Distinguishes methods of the same name and role.")
    value: float = Field(description="Mean score on held-out rows; as the best of some, too good.")


class RaceProgress(BaseModel):
    """Methods of an automatic choice that have been scored so far; no verdict before its end."""

    metric: str = Field(description="Metric of all scores.")
    title: str = Field(description="Title of the metric.")
    larger_is_better: bool = Field(description="Whether larger values of the metric are better.")
    average: str = Field(description="Units of equal weight: tasks or rows.")
    n_methods: int = Field(description="Number of methods that are compared.")
    n_scored: int = Field(description="Number of methods with a score.")
    n_left_out: int = Field(description="Number of methods that failed, or took too long.")
    best: list[BestSoFar] = Field(description="The best method of each kind, the best first.")


class Progress(BaseModel):
    """Progress of a running job."""

    loop: str = Field(description="The loop that runs now.")
    iteration: int = Field(description="Iteration within the loop.")
    objective: float | None = Field(description="Current value of the objective; null if unknown.")
    residual: float | None = Field(description="Quantity that the iteration reduces to zero.")
    fraction: float = Field(description="Estimated fraction of the job that is done, 0 to 1.")
    elapsed_s: float = Field(description="Seconds since the start of the attempt.")
    remaining_s: float | None = Field(description="Estimated remaining time.")
    race: RaceProgress | None = Field(
        None, description="Methods scored so far by an automatic choice; null for other jobs."
    )


class JobError(BaseModel):
    """Error of a job or of an attempt."""

    code: str = Field(description="Stable code; see docs/reference/errors.md.")
    detail: str = Field(description="What happened, where, and what to do.")
    attempt: int = Field(description="Number of the attempt that failed.")
    task: str | None = Field(None, description="Task of the error, if known.")
    row: int | None = Field(None, description="Row of the error within its task, from 0, if known.")
    column: str | int | None = Field(
        None, description="Column of the error: its name, or its number from 0, if known."
    )
    field: str | None = Field(None, description="Parameter of the error, if known.")

    # a field, not a computed one: that gives documents of FastAPI 0.135 two schemas of this class
    remedy: str | None = Field(
        description="Remedy, as listed in docs/reference/errors.md; null for a code of an earlier "
        "version."
    )

    @classmethod
    def from_record(cls, error: dict[str, Any] | None) -> "JobError | None":
        """Return the error of a database row, if any, with its remedy."""
        return None if error is None else cls(**error, remedy=remedy_of(error["code"]))


class Attempt(BaseModel):
    """One attempt at a job."""

    attempt: int = Field(description="Number of the attempt, from 1.")
    worker: str = Field(description="Host and process that supervised the attempt.")
    outcome: str = Field(
        description="`running`, `succeeded`, `failed`, `cancelled` or `timed_out`; `lost` if the "
        "worker or its child process died; `released` if the attempt was stopped to continue "
        "elsewhere, `postponed` if the machine lacked space, memory or file handles, which do not "
        "count against `max_attempts`."
    )
    error: JobError | None = Field(
        description="Why the attempt failed or was lost; null otherwise."
    )
    started_at: datetime = Field(description="Start of the attempt.")
    finished_at: datetime | None = Field(description="End of the attempt; null while it runs.")

    @classmethod
    def from_row(cls, row: AttemptRow) -> "Attempt":
        """Return the attempt of a database row, as the API shows it."""
        return cls(
            attempt=row.attempt,
            worker=ProcessIdentity.from_text(row.worker).name(),
            outcome=row.outcome,
            error=JobError.from_record(row.error),
            started_at=row.started_at,
            finished_at=row.finished_at,
        )


class AdaptedVersion(BaseModel):
    """The model version that a job adapts."""

    model: str = Field(description="Model name.")
    version: int = Field(description="Version number.")
    version_id: str = Field(description="Id of the version.")

    @classmethod
    def from_plan(cls, plan: dict[str, Any] | None) -> "AdaptedVersion | None":
        """Return the adapted version of a plan; None for other plans."""
        if plan is None or plan["kind"] != ADAPT or "model" not in plan:
            return None
        return cls(model=plan["model"], version=plan["version"], version_id=plan["version_id"])


class JobPart(BaseModel):
    """Work of a child job for its parent."""

    purpose: str = Field(description="`search`, `comparison`, `evaluation` or `auto`.")
    splits: list[int | None] = Field(
        description="Splits into training and held-out rows that it scores, from 0; null for the "
        "choice of parameters with all rows."
    )

    @classmethod
    def from_plan(cls, plan: dict[str, Any] | None) -> "JobPart | None":
        """Return the part that a plan of a child job describes; None for other plans."""
        if plan is None or "indices" not in plan:
            return None
        return cls(purpose=plan["of"], splits=plan["indices"])


class Inference(BaseModel):
    """A batch inference: one method of a model version, applied to tasks of a dataset."""

    version_id: str = Field(description="Id of the model version.")
    method: str = Field(description="Method of the model, such as predict.")
    tasks: dict[str, str] | None = Field(
        description="Tasks of the dataset, each with the model's task that computes it; null if "
        "all keep their names."
    )

    @classmethod
    def from_plan(cls, plan: dict[str, Any]) -> "Inference":
        """Return the schema of a plan."""
        return cls(version_id=plan["version_id"], method=plan["method"], tasks=plan["mapping"])


class Job(BaseModel):
    """A job."""

    id: str = Field(description="Id of the job.")
    state: str = Field(
        description="`waiting` (for its child jobs), `queued`, `submitted`, `running` or "
        "`cancelling`; at the end `succeeded`, `failed`, `cancelled` or `timed_out`."
    )
    is_final: bool = Field(description="Whether the job has ended.")
    kind: str = Field(description="`train`, `child` (of another job) or `infer`.")
    dataset_id: str = Field(description="Id of its dataset.")
    owner: str = Field(description="Owner of the job and of what it makes.")
    algorithm: str = Field(description="Algorithm name.")
    params: dict[str, Any] = Field(description="Parameters of the algorithm, with defaults.")
    seed: int = Field(description="Random seed of the fit.")
    model: str = Field(description="Name of the model that it trains or applies.")
    version: int | None = Field(
        description="Model version that the job created, null until it succeeds; of a batch "
        "inference, the version that it applies. Null once the version is deleted."
    )
    inference: Inference | None = Field(description="Batch inference of the job; null for others.")
    adapt: AdaptedVersion | None = Field(
        description="Model version to which the job adds tasks; null for others."
    )
    priority: int = Field(
        description="Jobs of one owner start in the order of their priority, highest first."
    )
    timeout_s: float = Field(description="Seconds that one attempt may take.")
    memory_mb: int = Field(description="Memory limit of the child process, in MiB.")
    expected_s: float | None = Field(
        description="Expected seconds from the start of the job to its end, as estimated at "
        "submission from the shapes of the data, the parameters and the speed of earlier jobs; "
        "mostly right within a factor of 3. With child jobs, it covers all of them, with as many "
        "at a time as there are slots. Null for child jobs, an automatic choice (its `budget_s` "
        "bounds it), adaptation and batch inference."
    )
    can_finish: bool = Field(
        description="Whether `POST /v1/jobs/{job_id}:finish` ends it now with the methods that are "
        "scored: an automatic choice, or an ensemble, that runs."
    )
    is_finishing: bool = Field(description="Whether it ends with the methods that are scored.")
    attempt: int = Field(description="Number of the current or last attempt; 0 before the first.")
    max_attempts: int = Field(
        description="Attempts after which the job fails if its worker was lost."
    )
    threads: int | None = Field(
        description="Number of threads of every attempt; null until the first one starts, unless "
        "the specification sets it."
    )
    parent_id: str | None = Field(description="Id of the parent job, if this is a child job.")
    part: JobPart | None = Field(None, description="Work of a child job; null for others.")
    child_jobs: dict[str, int] = Field(description="Number of child jobs by `state`.")
    result: dict[str, Any] | None = Field(
        description="Result of a child job, batch inference or automatic choice, or the `verdict` "
        "of a comparison with its `sentence`, and the `reason` if there is no verdict; null for "
        "other training jobs, which produce a model."
    )
    output: str | None = Field(
        description="Path of the outputs of a batch inference, as Parquet, below the URL of the "
        "service."
    )
    attempts: list[Attempt] = Field(description="All attempts, in order.")
    progress: Progress | None = Field(
        description="Progress of the current attempt; null before it starts."
    )
    error: JobError | None = Field(description="Why the job failed; null otherwise.")
    warnings: list[str] = Field(
        description="Warnings about the data and parameters; the model has them too."
    )
    created_at: datetime = Field(description="Time of submission.")
    started_at: datetime | None = Field(description="Start of the first attempt.")
    finished_at: datetime | None = Field(description="End of the job.")

    @classmethod
    def from_row(
        cls,
        row: JobRow,
        version: int | None,
        attempts: Sequence[AttemptRow],
        *,
        result: dict[str, Any] | None,
        child_jobs: dict[str, int],
    ) -> "Job":
        """Return a job as the API shows it.

        Parameters
        ----------
        version
            Number of the model version that the job made or applies.
        result
            Its result by the present rule for verdicts.
        child_jobs
            Number of child jobs by state.
        """
        inference = inference_plan(row)
        is_cancelling = row.is_cancel_requested and JobState(row.state) not in FINAL
        return cls(
            id=row.id,
            state=ShownJobState.CANCELLING if is_cancelling else row.state,
            is_final=JobState(row.state) in FINAL,
            kind="child" if row.parent_id else "train" if inference is None else INFER,
            dataset_id=row.dataset_id,
            owner=row.owner,
            algorithm=row.algorithm,
            params=row.params,
            seed=row.seed,
            model=row.model_name,
            version=version,
            inference=None if inference is None else Inference.from_plan(inference),
            adapt=AdaptedVersion.from_plan(row.plan),
            priority=row.priority,
            timeout_s=row.timeout_s,
            memory_mb=row.memory_mb,
            expected_s=row.expected_s,
            can_finish=row.state == JobState.RUNNING
            and not (is_cancelling or row.is_finish_requested)
            and has_race(row),
            is_finishing=row.is_finish_requested and JobState(row.state) not in FINAL,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            threads=row.threads,
            parent_id=row.parent_id,
            part=JobPart.from_plan(row.plan) if row.parent_id else None,
            child_jobs=child_jobs,
            result=result,
            output=None if row.output_blob_id is None else f"/v1/jobs/{row.id}/output",
            attempts=[Attempt.from_row(attempt) for attempt in attempts],
            progress=None if row.progress is None else Progress(**row.progress),
            error=JobError.from_record(row.error),
            warnings=row.warnings,
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
        )


class Event(BaseModel):
    """An event of a job."""

    id: int = Field(description="Id of the event; later events have larger ids.")
    kind: str = Field(description="`state`, `progress`, `cancel` or `finish`.")
    attempt: int = Field(description="Number of the attempt; 0 before the first.")
    created_at: datetime = Field(description="Time of the event.")
    data: dict[str, Any] = Field(description="Data of the event, which depend on `kind`.")

    @classmethod
    def from_row(cls, row: EventRow) -> "Event":
        """Return the event of a database row, as the API shows it."""
        return cls(
            id=row.id,
            kind=row.kind,
            attempt=row.attempt,
            created_at=row.created_at,
            data=row.data,
        )


def inference_plan(row: JobRow) -> dict[str, Any] | None:
    """Return the plan of a batch inference; None of other jobs."""
    return row.plan if row.plan is not None and row.plan.get("kind") == INFER else None
