"""Response schema of the audit log."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field

from service.storage.tables import AuditRow


class AuditEventSchema(BaseModel, title="AuditEvent", from_attributes=True):
    """A request or command that changed something, or tried to."""

    id: str = Field(description="Id of the event; ids sort by time.")
    operation: str = Field(
        description="`operationId` of the request in this document, or the name of a command."
    )
    object: str | None = Field(
        description="Path of the resource; null if the request did not create it."
    )
    name: str | None = Field(
        None, description="Name of the resource; null if it has none or was deleted."
    )
    status: int | None = Field(
        description="HTTP status; null for a command, and if the client disconnected."
    )
    code: str | None = Field(description="Error code of a refused request.")
    owner: str | None = Field(description="Owner of the API key; null without a valid key.")
    key_id: str | None = Field(
        description="Id of the API key; with status 401, the id in the refused key."
    )
    source: str | None = Field(description="Address of the client, or user@host of a command.")
    request_id: str | None = Field(
        description="`X-Request-ID` of the response; null for a command."
    )
    reason: str | None = Field(
        None, description="Why a renewal took this step; null for requests and commands."
    )
    created_at: datetime = Field(description="Time of the response, or of the command.")

    @classmethod
    def from_row(cls, row: AuditRow, name: str | None) -> Self:
        """Return the schema of a row, and of the name of its resource."""
        return cls.model_validate(row).model_copy(update={"name": name})
