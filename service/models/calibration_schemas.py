"""API schemas of the calibration of a model."""

from pydantic import BaseModel, Field

from algorithms.evaluation.scores.recall import ClassRecall


class ReliabilityPoint(BaseModel):
    """Rows with similar probabilities of a class."""

    n: int = Field(description="Number of probabilities in the bin.")
    probability: float = Field(description="Mean probability of the bin.")
    share: float = Field(description="Share of rows in the bin that are of the class.")
    low: float = Field(description="Lower end of the 95 % interval of the share.")
    high: float = Field(description="Upper end of the 95 % interval of the share.")


class TaskProbabilities(BaseModel):
    """Quality of the probabilities of a task."""

    brier: float = Field(description="Brier score.")
    log_loss: float = Field(description="Log loss.")


class ProbabilityQuality(BaseModel):
    """Quality of probabilities."""

    brier: float = Field(description="Brier score, the mean over tasks.")
    log_loss: float = Field(description="Log loss, the mean over tasks.")
    calibration_error: float = Field(
        description="Mean distance between probability and share over the bins of the curve."
    )
    by_task: dict[str, TaskProbabilities] = Field(description="Quality by task.")
    reliability: list[ReliabilityPoint] = Field(
        description="Reliability curve over the rows of all tasks, by bins of equal width."
    )


class TaskLevels(BaseModel):
    """Levels at which a task has intervals or sets."""

    n_held_out: int = Field(description="Number of rows that were held out in turn.")
    own_rows_to: float = Field(
        description="Level up to which the task uses its own rows: the level then holds for new "
        "rows of this task, above it for new rows of a random task."
    )
    largest: float = Field(
        description="Largest level of bounded intervals, or of sets without some classes."
    )


class NewTaskCalibration(BaseModel):
    """Calibration for tasks that are not trained, by tasks that were left out in turn."""

    n_tasks: int = Field(description="Number of tasks that were left out in turn.")
    largest: float = Field(
        description="Largest level of bounded intervals, or of sets without some classes."
    )
    left_out_rows: dict[str, float] = Field(
        description="Errors on rows that were held out of tasks that were trained, the mean over "
        "tasks: `rmse` and `mae`, in the unit of the targets, or `brier` and `log_loss`."
    )
    left_out_tasks: dict[str, float] = Field(
        description="The same errors on the rows of tasks that were left out."
    )


class CalibrationReport(BaseModel):
    """Quality of probabilities of training rows that were held out, and levels of intervals."""

    before: ProbabilityQuality | None = Field(
        None,
        description="Quality of 1/(1 + exp(-score)), divided by the sum over classes; null for "
        "numbers.",
    )
    after: ProbabilityQuality | None = Field(
        None, description="Quality of the calibrated probabilities; null for numbers."
    )
    by_class: dict[str, ClassRecall] | None = Field(
        None, description="Recall of each class with the threshold; null without one."
    )
    levels: dict[str, TaskLevels] = Field(description="Levels of intervals and sets, by task.")
    new_tasks: NewTaskCalibration | None = Field(
        None, description="Calibration for tasks that are not trained; null without."
    )
