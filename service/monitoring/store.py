"""SQL of monitors, their rows and their targets."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from service.access.stored_bytes import TARGET_BYTES, stored_bytes
from service.models.store import ActiveMonitor
from service.storage.database import Database, lock
from service.storage.tables import (
    AliasRow,
    ModelRow,
    MonitoredRow,
    MonitoredTarget,
    MonitorRow,
    RenewalRow,
    VersionRow,
)

#: Rows that a transaction changes or deletes, so that other writers get their turn.
BATCH_ROWS: Final = 500
_KEY: Final = {
    MonitoredRow: ("monitor_id", "row_id", "version"),
    MonitoredTarget: ("monitor_id", "row_id"),
}


def find_monitor(session: Session, owner: str, name: str, alias: str) -> MonitorRow | None:
    """Return the monitor of an alias, or None."""
    query = (
        sa.select(MonitorRow)
        .join(ModelRow, ModelRow.id == MonitorRow.model_id)
        .where(ModelRow.owner == owner, ModelRow.name == name, MonitorRow.alias == alias)
    )
    return session.scalar(query)


def delete_monitor(session: Session, monitor: MonitorRow) -> None:
    """Delete a monitor; its rows are deleted by :func:`delete_rows`, or with those that expire."""
    session.execute(sa.delete(MonitorRow).where(MonitorRow.id == monitor.id))


def full_monitors(session: Session, monitor_ids: Collection[str], max_bytes: int) -> set[str]:
    """Return which monitors may store no more rows: deleted ones, and those of full owners.

    Parameters
    ----------
    max_bytes
        Maximum size of what an owner stores; 0: no limit.
    """
    query = (
        sa.select(MonitorRow.id, ModelRow.owner)
        .join(ModelRow, ModelRow.id == MonitorRow.model_id)
        .where(MonitorRow.id.in_(monitor_ids))
    )
    owner_of = dict(session.execute(query).all())
    full = {
        owner
        for owner in set(owner_of.values())
        if max_bytes and stored_bytes(session, owner) >= max_bytes
    }
    return {id_ for id_ in monitor_ids if id_ not in owner_of or owner_of[id_] in full}


def refusing_monitors(
    session: Session, monitors: Collection[ActiveMonitor], max_bytes: int
) -> set[ActiveMonitor]:
    """Return which monitors store no rows that were made for them as they were.

    They are full, or exclude more columns since. Until the end of the transaction, the values of
    columns that are excluded meanwhile are not removed from the rows of the others.
    """
    ids = {monitor.id for monitor in monitors}
    for id_ in sorted(ids):
        lock_rows(session, id_)
    full = full_monitors(session, ids, max_bytes)
    query = sa.select(MonitorRow.id, MonitorRow.never_keep).where(MonitorRow.id.in_(ids))
    excluded = {row.id: row.never_keep for row in session.execute(query)}
    return {
        monitor
        for monitor in monitors
        if monitor.id in full
        or not set(monitor.never_keep).issuperset(excluded.get(monitor.id, ()))
    }


def add_rows(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows; one with the id and the version of an earlier row replaces it."""
    unique = {tuple(row[name] for name in _KEY[MonitoredRow]): row for row in rows}
    _upsert(session, MonitoredRow, list(unique.values()), kept=())


def add_unpredicted(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows that came with their targets, unless the row is there: it may be called now."""
    _upsert(session, MonitoredRow, rows, kept=MonitoredRow.__table__.columns.keys())


def add_targets(session: Session, targets: Sequence[Mapping[str, Any]]) -> None:
    """Store targets; those of known rows replace the earlier ones, but not their time."""
    _upsert(session, MonitoredTarget, targets, kept=("created_at",))


def _upsert(
    session: Session,
    table: type[MonitoredRow | MonitoredTarget],
    rows: Sequence[Mapping[str, Any]],
    *,
    kept: Collection[str],
) -> None:
    if not rows:
        return
    key = _KEY[table]
    # in one order, so that two transactions do not wait for each other
    ordered = sorted(rows, key=lambda row: [row[name] for name in key])
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    # of the table, since that of its class takes twice the time
    columns: Any = table.__table__
    insert: Any = (sqlite.insert if is_sqlite else postgresql.insert)(columns)
    changed = {n: insert.excluded[n] for n in ordered[0] if n not in key and n not in kept}
    upsert = (
        insert.on_conflict_do_update(index_elements=key, set_=changed)
        if changed
        else insert.on_conflict_do_nothing(index_elements=key)
    )
    session.connection().execute(upsert, ordered)


def count_dropped(session: Session, dropped: Mapping[str, int]) -> None:
    """Add to the number of rows that monitors could not keep."""
    for monitor_id in sorted(dropped):
        n = MonitorRow.n_dropped + dropped[monitor_id]
        session.execute(
            sa.update(MonitorRow).where(MonitorRow.id == monitor_id).values(n_dropped=n)
        )


def count_kept(session: Session, monitor_id: str) -> tuple[int, int, int]:
    """Return the numbers of rows and of targets of a monitor, and their bytes."""
    rows = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(MonitoredRow.size_bytes), 0))
    n_rows, n_bytes = session.execute(rows.where(MonitoredRow.monitor_id == monitor_id)).one()
    targets = sa.select(sa.func.count()).where(MonitoredTarget.monitor_id == monitor_id)
    n_targets = int(session.scalar(targets) or 0)
    return int(n_rows), n_targets, int(n_bytes) + n_targets * TARGET_BYTES


def known_targets(session: Session, monitor_id: str, row_ids: Sequence[str]) -> dict[str, Any]:
    """Return the targets of some rows that are known."""
    query = sa.select(MonitoredTarget.row_id, MonitoredTarget.target).where(
        MonitoredTarget.monitor_id == monitor_id, MonitoredTarget.row_id.in_(row_ids)
    )
    return dict(session.execute(query).all())


def known_rows(
    session: Session, monitor_id: str, row_ids: Sequence[str], version: int | None = None
) -> set[str]:
    """Return which ids are those of rows that are kept, of a version or of any."""
    query = sa.select(MonitoredRow.row_id).where(
        MonitoredRow.monitor_id == monitor_id, MonitoredRow.row_id.in_(row_ids)
    )
    if version is not None:
        query = query.where(MonitoredRow.version == version)
    return set(session.scalars(query))


def lock_rows(session: Session, monitor_id: str) -> None:
    """Let others that lock the rows of a monitor wait until the end of the transaction."""
    lock(session, "monitored rows", monitor_id)


def delete_rows(database: Database, monitor_id: str, prefix: str = "") -> Iterator[int]:
    """Delete rows and targets whose ids begin with a prefix; yield the number of each batch."""
    for table in (MonitoredRow, MonitoredTarget):
        # unlike LIKE, exact in lower and upper case on every database
        begins = sa.func.substr(table.row_id, 1, len(prefix)) == prefix
        query = sa.select(table.row_id).where(table.monitor_id == monitor_id)
        query = (query.where(begins) if prefix else query).distinct().limit(BATCH_ROWS)
        while True:
            with database.write() as session:
                lock_rows(session, monitor_id)
                ids = session.scalars(query).all()
                session.execute(
                    sa.delete(table).where(table.monitor_id == monitor_id, table.row_id.in_(ids))
                )
            yield len(ids)
            if len(ids) < BATCH_ROWS:
                break


def interrupt_renewal(session: Session, monitor_id: str) -> None:
    """Have a renewal that has copied rows delete its copies and begin again without those gone."""
    row = RenewalRow
    query = sa.update(row).where(row.monitor_id == monitor_id)
    running = row.state.in_(("copying", "combining", "training"))
    values = {"state": "clearing", "next_state": "copying", "step": row.step + 1, "retry_at": None}
    session.execute(query.where(running).values(values))


def pages_of_values(
    database: Database, monitor_id: str
) -> Iterator[Sequence[sa.Row[tuple[str, int, str, bytes | None, dict[str, Any] | None]]]]:
    """Yield the values of all rows of a monitor, in pages: id, version, task, values, unknown."""
    after = ("", 0)
    table = MonitoredRow
    key = sa.tuple_(table.row_id, table.version)
    query = (
        sa.select(table.row_id, table.version, table.task, table.values, table.unknown)
        .where(table.monitor_id == monitor_id)
        .order_by(table.row_id, table.version)
        .limit(BATCH_ROWS)
    )
    while True:
        with database.read() as session:
            page = session.execute(query.where(key > after)).all()
        yield page
        if len(page) < BATCH_ROWS:
            return
        after = (page[-1].row_id, page[-1].version)


def rewrite_values(session: Session, monitor_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the values of rows: each has ``id``, ``number``, ``new`` values and ``texts``."""
    if rows:
        statement = (
            sa.update(MonitoredRow)
            .where(
                MonitoredRow.monitor_id == monitor_id,
                MonitoredRow.row_id == sa.bindparam("id"),
                MonitoredRow.version == sa.bindparam("number"),
            )
            .values(values=sa.bindparam("new"), unknown=sa.bindparam("texts"))
        )
        session.connection().execute(statement, list(rows))


def joined_rows(
    session: Session, monitor_id: str, version: int | None, *, since: datetime, limit: int
) -> Sequence[sa.Row[Any]]:
    """Return the newest rows of a version, or of all, with their targets, the oldest first."""
    row, target = MonitoredRow, MonitoredTarget
    same = (target.monitor_id == row.monitor_id) & (target.row_id == row.row_id)
    query = (
        sa.select(
            *(row.row_id, row.task, row.prediction, row.low, row.high, row.probability),
            *(row.values, row.unknown, row.created_at, target.target),
            target.created_at.label("labelled_at"),
        )
        .outerjoin(target, same)
        .where(row.monitor_id == monitor_id, row.created_at >= since)
        .order_by(row.created_at.desc(), row.row_id.desc())
        .limit(limit)
    )
    if version is not None:
        query = query.where(row.version == version)
    return session.execute(query).all()[::-1]


def version_ids(session: Session, model_id: str) -> dict[int, str]:
    """Return the ids of the versions of a model by their numbers."""
    query = sa.select(VersionRow.version, VersionRow.id).where(VersionRow.model_id == model_id)
    return dict(session.execute(query).all())


def alias_version(session: Session, monitor: MonitorRow) -> int:
    """Return the number of the version that the alias of a monitor points at."""
    query = sa.select(VersionRow.version).join(AliasRow, AliasRow.version_id == VersionRow.id)
    return session.scalars(
        query.where(AliasRow.model_id == monitor.model_id, AliasRow.alias == monitor.alias)
    ).one()
