"""The HTTP route of the report of a monitor."""

from typing import Annotated

from fastapi import APIRouter, Query

from service.http.documentation import problems
from service.http.routing import Owner, secured
from service.models.alias_routes import AliasName
from service.models.routes import Name, find_version
from service.models.store import ALIAS_SEPARATOR
from service.monitoring.context import Context
from service.monitoring.report import make_report
from service.monitoring.report_schemas import MonitorReport
from service.monitoring.routes import PATH, existing_monitor

router = APIRouter(
    prefix="/v1/models/{name}/aliases", tags=["monitors"], route_class=secured("models:{}")
)


@router.get(
    f"{PATH}/report",
    summary="Report how a model does now",
    responses=problems("not-found", "invalid-request"),
)
def get_monitor_report(
    name: Name,
    alias: AliasName,
    services: Context,
    owner: Owner,
    version: Annotated[
        int | None,
        Query(ge=1, lt=2**31, description="Version. Default: that of the alias."),
    ] = None,
) -> MonitorReport:
    """Compare the rows that were kept with the training rows, and errors with those promised."""
    name, monitor = existing_monitor(services, owner, name, alias)
    inference = services.inference
    reference = f"{name}{ALIAS_SEPARATOR}{alias}" if version is None else name
    found = find_version(services.models, owner, reference, version)
    served = inference.resolver.find(owner, name, found.row.version)
    report = make_report(services, monitor, found, served)
    since = monitor.alarm_since
    if version is None and not report.alarms() and since is not None and since >= report.since:
        report.sentences.append(
            f"An alarm of {since:%Y-%m-%d} is no longer seen in the rows. Until its period has "
            "left the report, another one is no event."
        )
    if version is None:
        services.report_alarms(owner, name, alias, len(report.alarms()))
    return report
