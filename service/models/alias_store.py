"""SQL of aliases: names of model versions that can move to another version."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.storage.database import lock, now
from service.storage.tables import AliasRow, ModelRow, MonitorRow, VersionRow, new_id
from service.webhooks.events import EventType, emit


@dataclass(frozen=True, slots=True)
class NamedAlias:
    """An alias with the number of the version that it points to."""

    row: AliasRow
    version: int


def lock_model(session: Session, owner: str, name: str) -> None:
    """Lock a model until the end of the transaction, to move its aliases or delete versions."""
    lock(session, "model", owner, name)


def list_aliases(
    session: Session, owner: str, name: str, *, after: str | None, limit: int
) -> Sequence[NamedAlias]:
    """Return the aliases of a model in alphabetical order, after the alias ``after``."""
    query = _aliases(owner, name).order_by(AliasRow.alias).limit(limit)
    if after is not None:
        query = query.where(AliasRow.alias > after)
    return [NamedAlias(*row) for row in session.execute(query)]


def get_alias(session: Session, owner: str, name: str, alias: str) -> NamedAlias | None:
    """Return an alias of a model."""
    row = session.execute(_aliases(owner, name).where(AliasRow.alias == alias)).first()
    return None if row is None else NamedAlias(*row)


def move(session: Session, version: VersionRow, alias: str) -> None:
    """Point an alias at a version of its model, no challenger from now on; create it if needed."""
    row = session.get(AliasRow, (version.model_id, alias))
    previous = None if row is None else _number(session, row)
    if row is None:
        row = AliasRow(model_id=version.model_id, alias=alias)
        session.add(row)
    row.version_id, row.move_id, row.moved_at = version.id, new_id("move"), now()
    version.is_challenger = False
    session.flush()
    if previous != version.version:  # alarms are those of the version
        is_of_alias = (MonitorRow.model_id == row.model_id, MonitorRow.alias == alias)
        unseen = {"looked_at": None, "alarm_since": None}
        session.execute(sa.update(MonitorRow).where(*is_of_alias).values(unseen))
    _emit(session, "alias.moved", row, version=version.version, previous_version=previous)


def delete(session: Session, row: AliasRow) -> None:
    """Delete an alias, but not the version that it points to."""
    _emit(session, "alias.deleted", row, previous_version=_number(session, row))
    key = (AliasRow.model_id == row.model_id, AliasRow.alias == row.alias)
    session.execute(sa.delete(AliasRow).where(*key))


def _emit(session: Session, kind: EventType, row: AliasRow, **versions: int | None) -> None:
    model = session.get_one(ModelRow, row.model_id)
    path = f"/v1/models/{model.name}"
    data = {"model": model.name, "alias": row.alias, **versions}
    subject = f"{path}/aliases/{row.alias}"
    emit(session, model.owner, kind, source=path, subject=subject, data=data)


def _number(session: Session, row: AliasRow) -> int | None:
    """Return the number of the version that an alias points to."""
    return session.scalar(sa.select(VersionRow.version).where(VersionRow.id == row.version_id))


def _aliases(owner: str, name: str) -> sa.Select[AliasRow, int]:
    return (
        sa.select(AliasRow, VersionRow.version)
        .join(VersionRow, AliasRow.version_id == VersionRow.id)
        .join(ModelRow, AliasRow.model_id == ModelRow.id)
        .where(ModelRow.owner == owner, ModelRow.name == name)
    )
