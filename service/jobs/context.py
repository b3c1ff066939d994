"""Dependencies of the routes of jobs."""

from dataclasses import dataclass
from typing import Annotated

from service.http.routing import app_state
from service.jobs.changes import ChangeWatcher
from service.jobs.queue.dispatcher import Dispatcher
from service.jobs.watcher import JobWatcher
from service.settings import Settings
from service.storage.database import Database


@dataclass(frozen=True, slots=True)
class JobServices:
    """Components of the application that the package ``service.jobs`` uses."""

    settings: Settings
    database: Database
    dispatcher: Dispatcher
    watcher: JobWatcher
    changes: ChangeWatcher


#: Dependency of routes.
Context = Annotated[JobServices, app_state("jobs")]
