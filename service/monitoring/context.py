"""Dependencies of the routes of monitors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from service.http.routing import app_state
from service.inference.context import InferenceServices
from service.models.columns import ColumnNames
from service.models.context import ModelServices


@dataclass(frozen=True, slots=True)
class MonitorServices:
    """Components of the application that the package ``service.monitoring`` uses."""

    models: ModelServices
    inference: InferenceServices
    columns: ColumnNames
    report_alarms: Callable[[str, str, str, int], None]


#: Dependency of routes.
Context = Annotated[MonitorServices, app_state("monitoring")]
