"""HTTP routes of monitors: what they keep, and the deletion of rows."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from algorithms.interface.errors import explain_unknown
from service.errors.problems import Problem
from service.errors.validation import entry_at
from service.http.documentation import JSON_BODY, problems
from service.http.preconditions import check_if_match, etag
from service.http.responses import json_response
from service.http.routing import Confirm, Owner, Record, secured
from service.models import alias_store
from service.models.alias_routes import AliasName, found_alias
from service.models.routes import Name, find_version
from service.models.store import ALIAS_SEPARATOR
from service.monitoring import store
from service.monitoring.columns import names_of, stored_values
from service.monitoring.context import Context, MonitorServices
from service.monitoring.schemas import DeletedRows, Monitor, MonitorSpec
from service.storage.database import now
from service.storage.tables import MonitorRow, new_id

PATH = "/{alias}/monitor"
router = APIRouter(
    prefix="/v1/models/{name}/aliases", tags=["monitors"], route_class=secured("models:{}")
)


@router.get(
    PATH,
    summary="Read a monitor",
    response_model=Monitor,
    responses=problems("not-found", "invalid-request"),
)
def get_monitor(name: Name, alias: AliasName, services: Context, owner: Owner) -> Response:
    """Return what a monitor keeps, and how much it has kept."""
    name, monitor = existing_monitor(services, owner, name, alias)
    return _answer(services, name, monitor)


@router.put(
    PATH,
    summary="Create or change a monitor",
    response_model=Monitor,
    responses={
        200: {"description": "The monitor existed and is changed."},
        201: {"model": Monitor, "description": "The monitor was created."},
        **problems(*JSON_BODY, "not-found", "precondition-failed"),
    },
)
def put_monitor(
    name: Name,
    alias: AliasName,
    spec: MonitorSpec,
    request: Request,
    *,
    services: Context,
    owner: Owner,
    confirm: Confirm,
    record: Record,
) -> Response:
    """Keep rows that the version of an alias predicts, under whatever name it is called."""
    inference = services.inference
    name = find_version(services.models, owner, name, None).name
    version = find_version(services.models, owner, f"{name}{ALIAS_SEPARATOR}{alias}", None)
    _check_columns(services, version.row.id, spec.never_keep)
    with inference.database.write() as session:
        confirm(session)
        alias_store.lock_model(session, owner, name)
        pointer = found_alias(alias_store.get_alias(session, owner, name, alias), name, alias)
        monitor = store.find_monitor(session, owner, name, alias)
        status = 201 if monitor is None else 200
        added = set(spec.never_keep).difference([] if monitor is None else monitor.never_keep)
        if monitor is None:
            monitor = MonitorRow(
                id=new_id("mon"), model_id=pointer.row.model_id, alias=alias, created_at=now()
            )
            monitor.n_dropped = 0
            session.add(monitor)
        else:
            check_if_match(request, _tag(monitor))
        monitor.share, monitor.days = spec.share, spec.days
        monitor.never_keep, monitor.change_id = spec.never_keep, new_id("chg")
        session.flush()
        record(session, status)
    inference.resolver.wait_for_replicas()
    if status == 200 and added:
        _remove_values(services, monitor, added)
    return _answer(services, name, monitor, status=status)


@router.delete(
    PATH,
    summary="Delete a monitor",
    status_code=204,
    responses=problems("not-found", "precondition-failed", "invalid-request"),
)
def delete_monitor(
    name: Name,
    alias: AliasName,
    request: Request,
    *,
    services: Context,
    owner: Owner,
    confirm: Confirm,
    record: Record,
) -> Response:
    """End the record of an alias, and delete its rows and targets."""
    name = find_version(services.models, owner, name, None).name
    database = services.inference.database
    with database.write() as session:
        confirm(session)
        alias_store.lock_model(session, owner, name)
        monitor = _found(store.find_monitor(session, owner, name, alias), name, alias)
        check_if_match(request, _tag(monitor))
        store.delete_monitor(session, monitor)
        record(session, 204)
    services.inference.resolver.wait_for_replicas()
    for _ in store.delete_rows(database, monitor.id):
        pass  # what is left, if this process ends here, retention deletes
    services.report_alarms(owner, name, alias, 0)  # files of several processes keep the labels
    return Response(status_code=204)


@router.delete(
    f"{PATH}/rows",
    summary="Delete rows of a monitor",
    responses=problems("not-found", "invalid-request"),
)
def delete_monitored_rows(
    name: Name,
    alias: AliasName,
    row_id_prefix: Annotated[
        str,
        Query(min_length=1, max_length=200, description="How the ids of the rows begin."),
    ],
    services: Context,
    owner: Owner,
) -> DeletedRows:
    """Delete the rows and targets whose ids begin with a text, such as those of one person.

    Rows of recent calls that wait to be stored may come later: then repeat the request. A renewal
    that is training begins again without them.
    """
    _, monitor = existing_monitor(services, owner, name, alias)
    database = services.inference.database
    n_deleted = sum(store.delete_rows(database, monitor.id, row_id_prefix))
    with database.write() as session:
        store.interrupt_renewal(session, monitor.id)
    return DeletedRows(n_deleted=n_deleted)


def existing_monitor(
    services: MonitorServices, owner: str, name: str, alias: str
) -> tuple[str, MonitorRow]:
    """Return the name of a model and the monitor of its alias, or raise a not-found problem."""
    name = find_version(services.models, owner, name, None).name
    with services.inference.database.read() as session:
        monitor = store.find_monitor(session, owner, name, alias)
    return name, _found(monitor, name, alias)


def _found(monitor: MonitorRow | None, name: str, alias: str) -> MonitorRow:
    if monitor is None:
        detail = f"the alias '{alias}' of '{name}' has no monitor; PUT creates it"
        raise Problem("not-found", detail)
    return monitor


def _check_columns(services: MonitorServices, version_id: str, names: Sequence[str]) -> None:
    """Raise a problem if a version has no column of a name: another one may be meant."""
    for name in names:
        if services.columns.has(version_id, name) is False:
            of_tasks = services.columns.of(version_id).values()
            known = dict.fromkeys(column for columns in of_tasks for column in columns or ())
            detail = explain_unknown(name, known, what="column")
            raise Problem("invalid-request", detail, errors=[entry_at("/never_keep", detail)])


def _remove_values(services: MonitorServices, monitor: MonitorRow, columns: set[str]) -> None:
    """Remove the values of columns from the rows that are kept."""
    database = services.inference.database
    with database.write() as session:  # rows of a check before the change are stored before
        store.lock_rows(session, monitor.id)
        ids = store.version_ids(session, monitor.model_id)
    for page in store.pages_of_values(database, monitor.id):
        changed: list[dict[str, Any]] = []
        for row in page:
            if row.values is None:
                continue
            x = np.frombuffer(row.values, "<f8")
            texts = {n: text for n, text in (row.unknown or {}).items() if n not in columns}
            new = np.full(len(x), np.inf).tobytes()  # of a deleted version: columns are not known
            if row.version in ids:
                names = names_of(services.columns, ids[row.version], row.task, len(x))
                (new,) = stored_values(x[None], names, columns)
            changed.append(
                {"id": row.row_id, "number": row.version, "new": new, "texts": texts or None}
            )
        with database.write() as session:
            store.rewrite_values(session, monitor.id, changed)
    with database.write() as session:
        store.interrupt_renewal(session, monitor.id)


def _answer(
    services: MonitorServices, name: str, monitor: MonitorRow, *, status: int = 200
) -> Response:
    with services.inference.database.read() as session:
        body = Monitor.from_row(name, monitor, store.count_kept(session, monitor.id))
    return json_response(body, status=status, ETag=_tag(monitor))


def _tag(monitor: MonitorRow) -> str:
    return etag(monitor.change_id)
