"""The states of a dataset."""

from enum import StrEnum
from typing import Final


class DatasetState(StrEnum):
    """State of a dataset."""

    #: Stored, not yet parsed.
    UPLOADED = "uploaded"
    INGESTING = "ingesting"
    READY = "ready"
    #: Its issues are stored, but not its rows.
    REJECTED = "rejected"


#: State of a hidden row, which is kept for the jobs and models that reference it.
DELETED: Final = "deleted"
#: The states of datasets that will be ready or rejected.
UNFINISHED_DATASETS: Final = (DatasetState.UPLOADED, DatasetState.INGESTING)
