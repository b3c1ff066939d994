"""Response schemas of API keys."""

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, Field

from service.access.keys import Key
from service.storage.database import now
from service.storage.tables import KeyRow


class ApiKey(BaseModel):
    """An API key without its secret."""

    id: str = Field(description="Id of the key, as in `sib_<id>_<secret>`.")
    owner: str = Field(description="Owner of what it makes.")
    name: str | None = Field(description="Purpose of the key.")
    creator_id: str | None = Field(
        description="Id of the key that created it; null for a key of the command."
    )
    n_active_descendants: int = Field(
        description="Number of active keys that it created, directly or through others."
    )
    scopes: list[str] = Field(description="Scopes of the key.")
    is_active: bool = Field(description="Whether it is neither revoked nor expired.")
    created_at: datetime = Field(description="Time of creation.")
    expires_at: datetime | None = Field(description="When it expires; null for never.")
    revoked_at: datetime | None = Field(description="When it was revoked; null if it was not.")

    @classmethod
    def from_row(cls, row: KeyRow, n_active_descendants: int) -> Self:
        """Return the schema of a row."""
        return cls(**_fields(row), n_active_descendants=n_active_descendants)


class ApiKeyWithSecret(ApiKey):
    """An API key that has just been created."""

    key: str = Field(description="The key with its secret, which cannot be read again.")

    @classmethod
    def from_key(cls, row: KeyRow, key: Key) -> Self:
        """Return the schema of a new row and its key."""
        return cls(**_fields(row), n_active_descendants=0, key=key.text())


class QuotaUse(BaseModel):
    """What of a quota is used."""

    used: int = Field(description="How much there is.")
    maximum: int | None = Field(description="How much there may be; null without a limit.")


class Quotas(BaseModel):
    """What an owner has, and may have."""

    owner: str = Field(description="Name of the owner.")
    n_active_keys: int = Field(description="Number of keys that are neither revoked nor expired.")
    n_unfinished_jobs: int = Field(description="Number of jobs that wait or run.")
    datasets: QuotaUse = Field(description="Number of datasets and unfinished uploads.")
    models: QuotaUse = Field(description="Number of model versions.")
    stored_bytes: QuotaUse = Field(description="Bytes of data, models and outputs.")


def _fields(row: KeyRow) -> dict[str, Any]:
    names = (
        "id",
        "owner",
        "name",
        "creator_id",
        "scopes",
        "created_at",
        "expires_at",
        "revoked_at",
    )
    has_expired = row.expires_at is not None and row.expires_at <= now()
    is_active = row.revoked_at is None and not has_expired
    return {"is_active": is_active, **{name: getattr(row, name) for name in names}}
