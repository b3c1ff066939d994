"""Dependencies of the routes of datasets."""

from dataclasses import dataclass
from typing import Annotated

from service.datasets.ingestion.ingester import Ingester
from service.http.routing import app_state
from service.http.waiting import WaitingRequests
from service.settings import Settings
from service.storage.blobs import BlobStore
from service.storage.database import Database


@dataclass(frozen=True, slots=True)
class DatasetServices:
    """Components of the application that the package ``service.datasets`` uses."""

    settings: Settings
    database: Database
    blobs: BlobStore
    ingester: Ingester
    waiting: WaitingRequests


#: Dependency of routes.
Context = Annotated[DatasetServices, app_state("datasets")]
