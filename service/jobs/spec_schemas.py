"""API schemas of job specifications, and of the result of their validation."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from algorithms.evaluation.comparison.comparison import CompareOptions, EvaluateOptions
from algorithms.evaluation.selection.search import SearchOptions
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS, NewTasks
from algorithms.interface.ties import DEFAULT_TIES, TIES_DESCRIPTION, Ties
from algorithms.interface.weights import CLASS_WEIGHT_DESCRIPTION, ClassWeight
from algorithms.wrappers.calibration.options import Calibration
from algorithms.wrappers.preparation.recipe import Recipe
from service.errors.patterns import MODEL_REFERENCE
from service.http.schemas import WireModel
from service.models.names import NewModelName
from service.settings import MAX_JOB_ATTEMPTS, MAX_MEMORY_MB, MAX_PRIORITY, MAX_THREADS


class AdaptOptions(WireModel):
    """The stored model that a job adapts."""

    model: str = Field(pattern=MODEL_REFERENCE, description="Model name, or NAME@ALIAS.")
    version: int | None = Field(None, ge=1, lt=2**31, description="Version; default: the latest.")


def _parse_flag(value: Any) -> Any:
    """Return default options for true, and None for false."""
    if isinstance(value, bool):
        return {} if value else None
    return value


class JobLimits(WireModel):
    """Priority and limits of a job."""

    priority: int = Field(
        0,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="Jobs of one owner start in the order of their priority, highest first.",
    )
    timeout_s: float | None = Field(None, gt=0, description="Seconds that one attempt may take.")
    memory_mb: int | None = Field(
        None, ge=512, le=MAX_MEMORY_MB, description="Memory limit of the child process, in MiB."
    )
    max_attempts: int | None = Field(
        None,
        ge=1,
        le=MAX_JOB_ATTEMPTS,
        description="Attempts after which a job fails if its worker was lost.",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=MAX_THREADS,
        description="Number of threads; default: the job's share of the machine that first runs "
        "it. The same seed, versions and number of threads on the same kind of machine give the "
        "same model, bit for bit.",
    )


class JobSpec(JobLimits):
    """Specification of a training job."""

    dataset_id: str = Field(max_length=40, description="Id of a dataset in state `ready`.")
    algorithm: str = Field(
        max_length=64,
        description="Algorithm name from GET /v1/algorithms; or `auto`, which compares suitable "
        "algorithms on held-out rows and trains a weighted mean of the best.",
    )
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="Algorithm parameters; others keep their defaults. `auto` has "
        "`budget_s`, `single`, `splits`, `metric`, `average`, `min_effect`, `curve` and "
        "`algorithms`.",
    )
    preparation: Recipe | None = Field(
        None,
        description="How raw rows are prepared, learned from the training rows. Default: as "
        "described if the dataset has missing values or columns other than numbers, else not.",
    )
    calibration: Annotated[
        Calibration | None,
        BeforeValidator(_parse_flag, json_schema_input_type=bool | Calibration | None),
    ] = Field(
        None,
        description="Fit the algorithm also without each of some folds of the training rows, and "
        "calibrate its outputs on the held-out rows: models of classes get "
        "`predict_proba` and `predict_set`, models of numbers `predict_interval`. The report has "
        "Brier score, log loss and reliability curve.",
    )
    class_weight: ClassWeight | None = Field(None, description=CLASS_WEIGHT_DESCRIPTION)
    new_tasks: NewTasks = Field(
        DEFAULT_NEW_TASKS,
        description="What calls of the model do about tasks that it was not trained on, unless "
        "they say so themselves. `refuse`: an error. `common`: answer by what the tasks have in "
        "common; `auto` then chooses among the methods that can, and scores them on left-out "
        "tasks, too.",
    )
    ties: Ties = Field(DEFAULT_TIES, description=TIES_DESCRIPTION)
    model: NewModelName = Field(
        description="Model name; the trained model becomes its next version. It cannot end in a "
        "method, as `.predict` does.",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Random seed of the fit.")
    search: SearchOptions | None = Field(
        None,
        description="Search parameters by cross-validation, in child jobs, and train with the "
        "best.",
    )
    adapt: AdaptOptions | None = Field(
        None,
        description="Add the tasks of the dataset to this model instead of fitting a new one. Its "
        "parameters, and all that it has learned, stay fixed.",
    )
    compare: Annotated[
        CompareOptions | None,
        BeforeValidator(_parse_flag, json_schema_input_type=bool | CompareOptions | None),
    ] = Field(
        None,
        description="Compare the algorithm with its baselines, such as single-task and pooled "
        "training, on the same held-out rows. The model's report says whether learning the tasks "
        "together helps.",
    )
    evaluate: Annotated[
        EvaluateOptions | None,
        BeforeValidator(_parse_flag, json_schema_input_type=bool | EvaluateOptions | None),
    ] = Field(
        None,
        description="Evaluate the algorithm on held-out rows with every suitable metric. The "
        "published model is trained on all rows.",
    )

    def complete_calibration(self) -> Calibration | None:
        """Return the calibration with what follows from the other options; None without."""
        return None if self.calibration is None else self.calibration.for_new_tasks(self.new_tasks)


class RepeatSpec(WireModel):
    """Changes to the specification of a training job that is repeated."""

    dataset_id: str | None = Field(
        None, max_length=40, description="Id of another dataset. Default: the dataset of the job."
    )
    model: NewModelName | None = Field(
        None, description="Name of another model. Default: the model of the job."
    )
    seed: int | None = Field(None, ge=0, lt=2**63, description="Another random seed.")


class Valid(BaseModel):
    """Result of validating a job specification."""

    params: dict[str, Any] = Field(description="Parameters of the algorithm, with defaults.")
    warnings: list[str] = Field(description="Warnings about the data and parameters.")
    memory_mb: float | None = Field(
        description="Expected peak memory of a fit, in MiB, mostly right within a factor of 2; "
        "null for an automatic choice and for adaptation."
    )
    expected_s: float | None = Field(
        description="Expected seconds from the start of the job to its end, mostly right within a "
        "factor of 3; null for an automatic choice, whose `budget_s` bounds it, and for adaptation."
    )
