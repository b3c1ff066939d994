"""Options of a calibration."""

from pydantic import ConfigDict, Field

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
