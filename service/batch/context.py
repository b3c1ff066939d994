"""Dependencies of the routes of batch inference."""

from dataclasses import dataclass
from typing import Annotated

from service.http.routing import app_state
from service.jobs.context import JobServices as Jobs
from service.models.cache import ModelCache
from service.models.columns import ColumnNames
from service.models.resolver import ModelResolver
from service.settings import Settings
from service.storage.blobs import BlobStore
from service.storage.database import Database


@dataclass(frozen=True, slots=True)
class BatchServices:
    """Components of the application that the package ``service.batch`` uses.

    Attributes
    ----------
    threads
        Number of BLAS threads of an inference request; other numbers round differently.
    """

    settings: Settings
    database: Database
    blobs: BlobStore
    jobs: Jobs
    resolver: ModelResolver
    models: ModelCache
    columns: ColumnNames
    threads: int


#: Dependency of routes.
Context = Annotated[BatchServices, app_state("batch")]
