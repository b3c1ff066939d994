"""What the routes of models work with."""

from dataclasses import dataclass
from typing import Annotated

from service.blobs import BlobStore
from service.database import Database
from service.http.routing import app_state
from service.models.cache import ModelCache
from service.models.resolver import ModelResolver
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """Parts of the application that models need."""

    settings: Settings
    database: Database
    blobs: BlobStore
    resolver: ModelResolver
    models: ModelCache


#: The parts, as a dependency of routes.
Context = Annotated[Services, app_state("models")]
