"""HTTP route of the audit log."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from service.audit import store
from service.audit.schemas import AuditEventSchema
from service.http.documentation import problems
from service.http.paging import Moment, Page, PageQuery, page
from service.http.routing import app_state, secured
from service.storage.database import Database

#: Requires a scope of its own, since the events are about all owners.
router = APIRouter(prefix="/v1/audit", tags=["audit"], route_class=secured("audit:read"))


class AuditQuery(PageQuery):
    """Query parameters of the audit log."""

    owner: str | None = Field(None, max_length=200, description="Only events of this owner.")
    key_id: str | None = Field(None, max_length=40, description="Only events of this API key.")
    operation: str | None = Field(
        None, max_length=64, description="Only this operation, such as `delete_dataset`."
    )
    object: str | None = Field(
        None, max_length=500, description="Only this resource, such as `/v1/jobs/job_1`."
    )
    outcome: store.Outcome | None = Field(
        None, description="Only events with an error (`refused`), or only the others (`done`)."
    )
    since: Moment | None = Field(None, description="Only events of this time and later.")
    until: Moment | None = Field(None, description="Only events before this time.")


@router.get(
    "",
    summary="List audit events",
    responses=problems("invalid-page-token", "invalid-request"),
)
def list_audit_events(
    database: Annotated[Database, app_state("database")], query: Annotated[AuditQuery, Query()]
) -> Page[AuditEventSchema]:
    """List requests and commands that changed something or were refused, newest first."""
    where = store.AuditFilter(**query.model_dump(exclude={"page_size", "page_token"}))
    with database.read() as session:
        rows = store.list_page(session, where, after=query.after(), limit=query.page_size + 1)
        names = store.names_of(session, {row.object for row in rows})
    events = [AuditEventSchema.from_row(row, names.get(row.object or "")) for row in rows]
    return page(events, query, key=lambda event: event.id)
