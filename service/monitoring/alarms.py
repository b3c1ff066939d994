"""The daily look at the report of each monitor whose alarms somebody waits for."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.models import alias_store
from service.monitoring import store
from service.monitoring.context import MonitorServices
from service.monitoring.report_routes import get_monitor_report
from service.storage.database import now
from service.storage.tables import ModelRow, MonitorRow, RenewalRow, WebhookRow
from service.webhooks.events import EventType, emit

#: Time between two looks.
EVERY: Final = timedelta(days=1)
_RAISED: Final[EventType] = "alarm.raised"


class Watched(NamedTuple):
    """A monitor with the model that it belongs to."""

    monitor: MonitorRow
    owner: str
    name: str


def due_monitors(session: Session) -> Sequence[Watched]:
    """Return the monitors to look at, the longest unseen first.

    Their owner has a webhook for alarms, or they have a renewal with ``alarm_days``.
    """
    webhooks = session.execute(sa.select(WebhookRow.owner, WebhookRow.types))
    owners = {owner for owner, types in webhooks if types is None or _RAISED in types}
    seen, alarm_days = MonitorRow.looked_at, RenewalRow.rule["alarm_days"].as_integer()
    query = (
        sa.select(MonitorRow, ModelRow.owner, ModelRow.name)
        .join(ModelRow, ModelRow.id == MonitorRow.model_id)
        .outerjoin(RenewalRow, RenewalRow.monitor_id == MonitorRow.id)
        .where(seen.is_(None) | (seen <= now() - EVERY))
        .where(ModelRow.owner.in_(owners) | alarm_days.is_not(None))
        .order_by(seen.nulls_first())
    )
    return [Watched(*found) for found in session.execute(query)]


def look(services: MonitorServices, watched: Watched) -> None:
    """Store when the oldest alarm of a report began, and emit an event if there was none before.

    An alarm stays until its period has left the report, or the alias is moved, although later rows
    or corrected targets may make the evidence of the period smaller.
    """
    seen, owner, name = watched
    report = get_monitor_report(name, seen.alias, services, owner)
    with services.inference.database.write() as session:
        alias_store.lock_model(session, owner, name)
        monitor = session.get(MonitorRow, seen.id)
        if monitor is None or monitor.looked_at != seen.looked_at:
            return  # another process came first, or the alias was moved
        if store.alias_version(session, monitor) != report.version:
            return
        found = report.alarms()
        if monitor.alarm_since is not None and monitor.alarm_since >= report.since:
            found.append(monitor.alarm_since)  # evidence that was enough once stays so
        since = min(found, default=None)
        if since is not None and monitor.alarm_since is None:
            data = {"model": name, "alias": seen.alias, "sentences": report.sentences}
            path = f"/v1/models/{name}"
            subject = f"{path}/aliases/{seen.alias}"
            emit(session, owner, _RAISED, source=path, subject=subject, data=data)
        monitor.alarm_since, monitor.looked_at = since, now()
