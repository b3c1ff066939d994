"""API schemas of the report of a monitor."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from service.models.calibration_schemas import ReliabilityPoint


class ObservedError(BaseModel):
    """The error on labelled rows, beside the error that training promised."""

    metric: str = Field(description="rmse, or error_rate for classes.")
    n_rows: int = Field(description="Number of labelled rows that were predicted.")
    value: float = Field(description="Error on these rows.")
    low: float = Field(description="Lower end of its 95 % interval, for one look at it.")
    high: float = Field(description="Upper end of its 95 % interval.")
    promised: float | None = Field(
        description="Error on rows that training held out; null if the model has no evaluation."
    )
    alarm_since: datetime | None = Field(
        description="When it was clear that the error is larger than promised; null if it is not. "
        "It may be looked at every day: of quiet years, one in twenty has any false alarm."
    )
    is_far_above: bool = Field(
        default=False,
        description="Whether the interval begins above twice (of all tasks together: 1.1 times) "
        "what the error is at most if the promise, which has an error itself, holds. It is worth a "
        "look even without an alarm, which takes rows of several days, since those of one day may "
        "share a cause.",
    )


class Coverage(BaseModel):
    """How many targets are in the intervals of their predictions."""

    level: float = Field(description="Share that should be.")
    share: float = Field(description="Share that is.")
    low: float = Field(description="Lower end of its 95 % interval.")
    high: float = Field(description="Upper end of its 95 % interval.")


class TaskState(BaseModel):
    """How a model does in one task, or over all."""

    task: str | None = Field(description="The task; null for all tasks together.")
    n_rows: int = Field(description="Number of rows that were predicted.")
    n_targets: int = Field(description="Number of rows of which the target is known.")
    is_new: bool = Field(description="Whether the model was not trained on the task.")
    error: ObservedError | None = Field(description="The error; null without labelled rows.")
    coverage: Coverage | None = Field(description="Coverage of intervals; null without any.")
    estimated_error: float | None = Field(
        description="Error that is expected on rows without targets by the intervals or "
        "probabilities of the model itself: an estimate, which is wrong if the model is."
    )
    own_change: float | None = Field(
        None,
        description="Factor by which the error of the task has changed beyond that of all tasks, "
        "drawn to 1 as far as tasks differ little.",
    )


class ColumnState(BaseModel):
    """A column whose values may have moved away from the training rows."""

    task: str | None = Field(description="The task; null for all tasks together.")
    column: str = Field(description="Name of the column.")
    n_rows: int = Field(description="Number of new values.")
    stability_index: float = Field(
        description="Population stability index: below 0.1 is small, above 0.25 large. It has no "
        "part in alarms."
    )
    evidence: float = Field(
        description="Logarithm of the evidence that the values come from another distribution."
    )
    alarm_since: datetime | None = Field(
        description="When it was clear that the values have moved; null if it is not."
    )
    before: list[float] | None = Field(
        None,
        description="Shares of the training values: below, in each interval or level, above or "
        "unknown, and missing; null for all tasks together.",
    )
    now: list[float] | None = Field(None, description="Shares of the new values, likewise.")
    bins: list[str] | None = Field(None, description="What these shares are of.")


class MonitorReport(BaseModel):
    """How a version does now."""

    model: str = Field(description="Model name.")
    alias: str = Field(description="Alias whose rows are reported.")
    version: int = Field(description="Version number.")
    verdict: Literal["nothing", "quiet", "no-targets", "columns", "tasks", "all"] = Field(
        description="`nothing`: no rows; `no-targets`: no alarm, but no targets either; `quiet`: "
        "no alarm; `columns`: columns have moved; `tasks`: the errors of the tasks in "
        "`changed_tasks` are larger than promised; `all`: errors are larger in all tasks."
    )
    sentences: list[str] = Field(description="The verdict in words.")
    changed_tasks: list[str] = Field(description="Tasks that have a trouble of their own.")
    common_change: float | None = Field(
        description="Factor by which errors have changed in all tasks; null without targets."
    )
    common_low: float | None = Field(description="Lower end of its 95 % interval.")
    common_high: float | None = Field(description="Upper end of its 95 % interval.")
    since: datetime = Field(description="Start of the period of the oldest alarms that are shown.")
    overall: TaskState = Field(description="All tasks together.")
    tasks: list[TaskState] = Field(
        description="Each task: those with alarms first, then those far above their promise."
    )
    columns: list[ColumnState] = Field(
        description="Columns with alarms, and others with the most evidence."
    )
    reliability: list[ReliabilityPoint] = Field(
        description="How often the predicted class was right, by its probability."
    )
    new_tasks: list[str] = Field(description="Tasks that the model was not trained on.")
    unknown_categories: dict[str, dict[str, int]] = Field(
        description="Numbers of values of categories that training rows do not have, by column."
    )
    n_dropped: int = Field(description="Number of rows that could not be kept.")
    is_partial: bool = Field(description="Whether there are more rows than the report reads.")

    def alarms(self) -> list[datetime]:
        """Return the times of all alarms, of errors and of columns."""
        errors = [state.error for state in (self.overall, *self.tasks) if state.error is not None]
        since = [*(e.alarm_since for e in errors), *(c.alarm_since for c in self.columns)]
        return [moment for moment in since if moment is not None]
