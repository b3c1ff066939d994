"""API schemas of renewals."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from service.errors.patterns import TEXT_LINE
from service.http.schemas import WireModel
from service.renewal.cron import Cron

State = Literal["waiting", "copying", "combining", "training", "trial", "clearing"]


def _is_cron(text: str) -> str:
    try:
        Cron.parse(text)
    except ValueError as error:
        raise PydanticCustomError("cron", "{detail}", {"detail": str(error)}) from None
    return " ".join(text.split())


class RenewalSpec(WireModel):
    """When a model is trained again, on which rows, and how its successor is chosen."""

    rows: int | None = Field(
        None,
        ge=10,
        le=1_000_000,
        description="Train when so many rows have got their target since the last training.",
    )
    alarm_days: int | None = Field(
        None,
        ge=0,
        le=365,
        description="Train when the report has had an alarm for so many days; it is looked at "
        "every day.",
    )
    cron: Annotated[str, AfterValidator(_is_cron)] | None = Field(
        None,
        max_length=100,
        description="Train at these times, if there are new targets: minute, hour, day of the "
        "month, month, day of the week, in UTC, such as `0 3 * * 1`.",
    )
    max_rows: int = Field(
        20_000,
        ge=10,
        le=100_000,
        description="Add at most so many labelled rows to the dataset, the newest ones.",
    )
    max_age_days: int | None = Field(
        None,
        ge=1,
        le=3650,
        description="Add only rows of so many days. Default: all that are kept.",
    )
    bounds: Literal["new", "all"] = Field(
        "new",
        description="Whether the bounds are those of the rows that are added, or of all rows: then "
        "those of the dataset of the model leave if it was uploaded more than `max_age_days` ago, "
        "or as far as there is no room beside the new ones; at least 20 of each task stay.",
    )
    promote: Literal["test", "hand"] = Field(
        "test", description="Whether a test that may be looked at every day promotes a challenger."
    )
    label_days: int = Field(
        1,
        ge=0,
        le=365,
        description="Days after the day of a call until most targets are known; the test weighs "
        "each day once, after that.",
    )
    trial_days: int = Field(
        60, ge=1, le=730, description="Days after which a challenger that was not promoted leaves."
    )

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if self.rows is None and self.alarm_days is None and self.cron is None:
            raise ValueError("give at least one of rows, alarm_days and cron")
        if self.trial_days <= self.label_days:
            days = f"trial_days is {self.trial_days}, label_days {self.label_days}"
            raise ValueError(f"{days}: no day would be weighed; give more trial_days")
        return self


class Decision(WireModel):
    """Why something is decided by hand."""

    reason: str | None = Field(
        None, min_length=1, max_length=300, pattern=TEXT_LINE, description="For the audit log."
    )


class Trial(BaseModel):
    """A challenger beside the champion."""

    champion: int = Field(description="Version of the alias.")
    challenger: int = Field(description="Version that predicts the same rows, unseen by callers.")
    n_days: int = Field(description="Number of days that are weighed.")
    n_rows: int = Field(description="Number of their rows with a target and both predictions.")
    gain: float | None = Field(
        description="Mean of the losses that the challenger saves, in usual losses of the champion."
    )
    evidence: float = Field(description="Logarithm of the evidence that the challenger is better.")
    needed: float = Field(description="Evidence at which it is promoted.")
    worse_tasks: list[str] = Field(
        description="Tasks in which it is shown to be worse; while there are any, only a person "
        "promotes it."
    )


class Renewal(BaseModel):
    """The renewal of an alias."""

    model: str = Field(description="Model name.")
    alias: str = Field(description="Alias that moves to a better version.")
    rule: RenewalSpec = Field(description="When and how it is renewed.")
    state: State = Field(
        description="Waiting for its rule; copying, combining or training; on trial; or clearing "
        "copies of rows away."
    )
    reason: str = Field(description="What happened last, and why.")
    n_new_targets: int = Field(description="Number of targets since the last training.")
    due_at: datetime | None = Field(description="Next time of the cron form.")
    alarm_since: datetime | None = Field(description="Oldest alarm, at the last daily look.")
    job_id: str | None = Field(description="Training job of the challenger.")
    trial: Trial | None = Field(description="The challenger and what is known of it.")
    previous_version: int | None = Field(
        description="Version that `:put-back` gives the alias again; null if there is none."
    )
    updated_at: datetime = Field(description="Time of the last step.")
