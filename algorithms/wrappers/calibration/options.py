"""Options of a calibration."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from algorithms.interface.new_tasks import NewTasks
from algorithms.interface.params import StrictModel


class Calibration(StrictModel):
    """How the outputs of a model are calibrated on training rows that are held out in turn."""

    model_config = ConfigDict(frozen=True)

    n_folds: int = Field(
        5,
        ge=2,
        le=20,
        description="Folds of the training rows. The algorithm is fitted once without each, and "
        "once with all rows.",
    )
    threshold: Literal["prevalence"] | dict[str, Annotated[float, Field(gt=0, lt=1e100)]] | None = (
        Field(
            None,
            description="When a class is answered by `predict`. Default: as without calibration. "
            "`prevalence`: the class whose probability is largest relative to its share of the "
            "training rows; of two classes, the one that is more probable than in general. "
            '`{"ill": 10}`: the class with the largest probability times the cost of missing it; '
            "other classes cost 1, so that ill is answered above a probability of 1/11.",
        )
    )
    leave_tasks_out: bool | None = Field(
        None,
        description="Fit also without each of 'n_folds' parts of the tasks, for intervals, "
        "probabilities and sets of tasks that are not trained. Default: if 'new_tasks' is "
        "'common'.",
    )

    def for_new_tasks(self, new_tasks: NewTasks) -> "Calibration":
        """Return the options with what follows from what calls do about new tasks."""
        if self.leave_tasks_out is not None or new_tasks == "refuse":
            return self
        return self.model_copy(update={"leave_tasks_out": True})
