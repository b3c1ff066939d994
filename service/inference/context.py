"""Dependencies and parameters of the inference routes."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query

from service.http.routing import app_state
from service.inference.inputs import InputSpecs
from service.inference.pool import ComputePool
from service.inference.row_ids import Record
from service.inference.statistics import Statistics
from service.models.cache import ModelCache
from service.models.resolver import ModelResolver
from service.settings import Settings
from service.storage.database import Database


@dataclass(frozen=True, slots=True)
class InferenceServices:
    """Components of the application that the package ``service.inference`` uses."""

    settings: Settings
    database: Database
    resolver: ModelResolver
    models: ModelCache
    inputs: InputSpecs
    compute: ComputePool
    statistics: Statistics
    record: Record


#: Dependency of routes.
Context = Annotated[InferenceServices, app_state("inference")]

TaskName = Annotated[
    str | None, Query(description="Task of the rows, if the body does not name it.")
]
