"""Storage of targets that come later, and of labelled rows that were never predicted."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy.orm import Session

from algorithms.interface.errors import UnknownTask
from algorithms.wrappers.new_tasks import for_tasks
from service.access.stored_bytes import stored_bytes
from service.errors.problems import Problem
from service.models.store import ServableVersion
from service.monitoring import store
from service.monitoring.columns import names_of, stored_values
from service.monitoring.context import MonitorServices
from service.monitoring.feedback_table import FeedbackTable, take
from service.monitoring.recorder import MAX_COLUMNS, OVERHEAD_BYTES
from service.monitoring.sampling import is_kept
from service.monitoring.schemas import Feedback
from service.storage.database import now
from service.storage.tables import MonitorRow

_MAX_NAMED: Final = 20
#: Rows between two looks at the quota, a multiple of those of a transaction.
_QUOTA_ROWS: Final = 20 * store.BATCH_ROWS


def store_feedback(
    services: MonitorServices,
    monitor: MonitorRow,
    served: ServableVersion,
    table: FeedbackTable,
    *,
    owner: str,
    record: Callable[[Session], None],
) -> Feedback:
    """Store the targets of a table, in one transaction for each few rows; repeating it is safe.

    Of several targets of one row, the last counts.

    Parameters
    ----------
    record
        Stores the audit event, in the first transaction.

    Raises
    ------
    Problem
        The owner's quota of stored bytes is full.
    """
    n_rows = len(table.row_ids)
    last = {row_id: i for i, row_id in enumerate(table.row_ids)}
    labelled = {row_id: i for row_id, i in last.items() if table.targets[i] is not None}
    kept = {row_id: i for row_id, i in labelled.items() if is_kept(row_id, monitor.share)}
    ids = list(kept)
    n_new = n_corrected = n_unpredicted = 0
    unknown: list[str] = []
    for first in range(0, len(ids), store.BATCH_ROWS):
        if first % _QUOTA_ROWS == 0:
            _check_quota(services, owner)
        chunk = ids[first : first + store.BATCH_ROWS]
        targets = {row_id: table.targets[kept[row_id]] for row_id in chunk}
        with services.inference.database.read() as session:
            rowless = set(chunk) - store.known_rows(session, monitor.id, chunk)
        absent = [row_id for row_id in chunk if row_id in rowless]
        rows = _unpredicted(services, monitor, served, take(table, [kept[n] for n in absent]))
        moment = now()
        with services.inference.database.write() as session:
            before = store.known_targets(session, monitor.id, chunk)
            if first == 0:
                record(session)
            store.add_unpredicted(session, rows)
            changed = [n for n in chunk if n not in before or before[n] != targets[n]]
            store.add_targets(
                session,
                [
                    {
                        "monitor_id": monitor.id,
                        "row_id": row_id,
                        "target": targets[row_id],
                        "created_at": moment,
                        "updated_at": moment,
                    }
                    for row_id in changed
                ],
            )
        n_new += len(chunk) - len(before)
        n_corrected += sum(row_id in before for row_id in changed)
        n_unpredicted += len(rows)
        with_rows = {row["row_id"] for row in rows}
        unknown += [row_id for row_id in absent if row_id not in with_rows]
    return Feedback(
        n_rows=n_rows,
        n_new=n_new,
        n_corrected=n_corrected,
        n_repeated=n_rows - len(last) + len(ids) - n_new - n_corrected,
        n_unpredicted=n_unpredicted,
        n_empty=len(last) - len(labelled),
        n_not_kept=len(labelled) - len(kept),
        n_unknown=len(unknown),
        unknown=unknown[:_MAX_NAMED],
    )


def _check_quota(services: MonitorServices, owner: str) -> None:
    limit = services.inference.settings.max_stored_bytes
    if not limit:
        return
    with services.inference.database.read() as session:
        if stored_bytes(session, owner) >= limit:
            detail = f"the stored bytes have reached the maximum of {limit}; delete something first"
            raise Problem("quota-exceeded", detail)


def _unpredicted(
    services: MonitorServices,
    monitor: MonitorRow,
    served: ServableVersion,
    table: FeedbackTable,
) -> list[dict[str, Any]]:
    """Return the rows to store of a table that has tasks and all columns of the model."""
    inputs = services.inference.inputs
    model = services.inference.models.get(served)
    if not table.row_ids or table.rows.names is None:
        return []
    single = model.tasks[0] if len(model.tasks) == 1 else None
    by_task: dict[str, list[int]] = {}
    for i in range(len(table.row_ids)):
        task = single if table.tasks is None else table.tasks[i]
        if task is not None:
            by_task.setdefault(task, []).append(i)
    rows: list[dict[str, Any]] = []
    for task, places in by_task.items():
        try:
            of_task, _ = for_tasks(model, [task], "common")
        except UnknownTask:
            continue
        spec = inputs.of_tasks(served, of_task, "predict", [task])
        wanted = spec.columns()
        given = set(table.rows.names)
        if wanted is None or not given.issuperset(wanted) or len(wanted) > MAX_COLUMNS:
            continue
        part = take(table, places)
        X = part.rows.without(given.difference(wanted)).as_matrix(spec)
        rows += _rows(services, monitor, served, task=task, row_ids=part.row_ids, X=X)
    return rows


def _rows(
    services: MonitorServices,
    monitor: MonitorRow,
    served: ServableVersion,
    *,
    task: str,
    row_ids: Sequence[str],
    X: Any,
) -> list[dict[str, Any]]:
    names, moment = names_of(services.columns, served.id, task, X.shape[1]), now()
    rows = []
    stored = stored_values(X, names, monitor.never_keep)
    for row_id, values in zip(row_ids, stored, strict=True):
        rows.append(
            {
                "monitor_id": monitor.id,
                "row_id": row_id,
                "version": served.version,
                "task": task,
                **dict.fromkeys(("prediction", "low", "high", "probability", "unknown")),
                "values": values,
                "size_bytes": OVERHEAD_BYTES + len(row_id) + len(values),
                "created_at": moment,
            }
        )
    return rows
