"""What batch inference works with."""

from dataclasses import dataclass
from typing import Annotated

from service.blobs import BlobStore
from service.database import Database
from service.http.routing import app_state
from service.jobs.queue.dispatcher import Dispatcher
from service.models.cache import ModelCache
from service.models.columns import ColumnNames
from service.models.resolver import ModelResolver
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """Parts of the application that batch inference needs.

    Attributes
    ----------
    threads
        Threads of linear algebra of an inference request: with others, sums round differently.
    """

    settings: Settings
    database: Database
    blobs: BlobStore
    dispatcher: Dispatcher
    resolver: ModelResolver
    models: ModelCache
    columns: ColumnNames
    threads: int


#: The parts, as a dependency of routes.
Context = Annotated[Services, app_state("batch")]
