"""What the routes share while the service runs."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.access.authenticator import Authenticator
from service.blobs import BlobStore
from service.database import Database
from service.datasets.ingestion.ingester import Ingester
from service.health.watch import Watch
from service.inference.cache import ModelCache
from service.inference.pool import ComputePool
from service.inference.resolver import ModelResolver
from service.inference.statistics import Statistics
from service.jobs.queue.dispatcher import Dispatcher
from service.models.columns import ColumnNames
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that live as long as the process."""

    settings: Settings
    database: Database
    blobs: BlobStore
    authenticator: Authenticator
    ingester: Ingester
    dispatcher: Dispatcher
    watch: Watch
    resolver: ModelResolver
    models: ModelCache
    columns: ColumnNames
    compute: ComputePool
    statistics: Statistics


# not a plain function: those are called in threads, which takes longer than most calls of models
async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


#: The parts, as a dependency of routes.
Context = Annotated[Services, Depends(_services)]
