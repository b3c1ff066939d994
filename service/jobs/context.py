"""What the routes of jobs work with."""

from dataclasses import dataclass
from typing import Annotated

from service.database import Database
from service.http.routing import app_state
from service.jobs.queue.dispatcher import Dispatcher
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """Parts of the application that jobs need."""

    settings: Settings
    database: Database
    dispatcher: Dispatcher


#: The parts, as a dependency of routes.
Context = Annotated[Services, app_state("jobs")]
