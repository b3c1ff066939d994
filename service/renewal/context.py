"""Dependencies of renewals."""

from dataclasses import dataclass
from typing import Annotated

from service.datasets.context import DatasetServices
from service.http.routing import app_state
from service.monitoring.context import MonitorServices
from service.storage.database import Database


@dataclass(frozen=True, slots=True)
class RenewalServices:
    """Components of the application that the package ``service.renewal`` uses."""

    datasets: DatasetServices
    monitoring: MonitorServices

    @property
    def database(self) -> Database:
        """The database."""
        return self.datasets.database


#: Dependency of routes.
Context = Annotated[RenewalServices, app_state("renewal")]
