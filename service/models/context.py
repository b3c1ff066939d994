"""Dependencies of the routes of models."""

from dataclasses import dataclass
from typing import Annotated

from service.http.routing import app_state
from service.models.cache import ModelCache
from service.models.images import ImageProcess
from service.models.resolver import ModelResolver
from service.settings import Settings
from service.storage.blobs import BlobStore
from service.storage.database import Database


@dataclass(frozen=True, slots=True)
class ModelServices:
    """Components of the application that the package ``service.models`` uses."""

    settings: Settings
    database: Database
    blobs: BlobStore
    resolver: ModelResolver
    models: ModelCache
    images: ImageProcess


#: Dependency of routes.
Context = Annotated[ModelServices, app_state("models")]
