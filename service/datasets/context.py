"""What the routes of datasets work with."""

from dataclasses import dataclass
from typing import Annotated

from service.blobs import BlobStore
from service.database import Database
from service.datasets.ingestion.ingester import Ingester
from service.http.routing import app_state
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """Parts of the application that datasets need."""

    settings: Settings
    database: Database
    blobs: BlobStore
    ingester: Ingester


#: The parts, as a dependency of routes.
Context = Annotated[Services, app_state("datasets")]
