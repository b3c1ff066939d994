"""Storage of targets that come later, and of labelled rows that were never predicted."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from sqlalchemy.orm import Session

from algorithms.interface.errors import AlgorithmError, UnknownTask
from algorithms.interface.model import Model
from algorithms.wrappers.new_tasks import for_tasks
from algorithms.wrappers.preparation.column_matching import clean_name
from service.access.stored_bytes import stored_bytes
from service.errors.problems import Problem, problem_of
from service.inference.call import Call
from service.inference.compute import compute
from service.inference.formats.table import TableRows
from service.inference.row_ids import MonitoredCall, RowIds
from service.inference.sent_rows import missing_columns
from service.models.resolver import ResolvedModel
from service.models.store import ActiveMonitor, ServableVersion
from service.monitoring import store
from service.monitoring.context import MonitorServices
from service.monitoring.feedback_table import FeedbackTable, take
from service.monitoring.recorder import rows_of
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
        The owner's quota of stored bytes is full, a row cannot be predicted, or the monitor was
        changed meanwhile.
    """
    active = ActiveMonitor(monitor.id, monitor.share, tuple(monitor.never_keep))
    n_rows = len(table.row_ids)
    last = {row_id: i for i, row_id in enumerate(table.row_ids)}
    labelled = {row_id: i for row_id, i in last.items() if table.targets[i] is not None}
    kept = {row_id: i for row_id, i in labelled.items() if is_kept(row_id, monitor.share)}
    ids = list(kept)
    n_new = n_corrected = n_unpredicted = 0
    unknown: list[str] = []
    unknown_tasks, unknown_labels = Counter[str](), Counter[str]()
    classes = classes_of(services.inference.models.get(served))
    # those that were never called are predicted by each version that they are sent to
    version = None if table.has_ids else served.version
    n_stored = 0
    for first in range(0, len(ids), store.BATCH_ROWS):
        if first % _QUOTA_ROWS == 0:
            _check_quota(services, owner)
        chunk = ids[first : first + store.BATCH_ROWS]
        with services.inference.database.read() as session:
            rowless = set(chunk) - store.known_rows(session, monitor.id, chunk, version)
        absent = [row_id for row_id in chunk if row_id in rowless]
        places = [kept[row_id] for row_id in absent]
        rows, refused = _predicted_now(services, active, served, table, places, owner=owner)
        unknown_tasks += refused
        left = set(absent) - {row["row_id"] for row in rows}
        if table.has_ids:
            unknown += [row_id for row_id in absent if row_id in left]
        else:
            chunk = [row_id for row_id in chunk if row_id not in left]
        targets = {row_id: table.targets[kept[row_id]] for row_id in chunk}
        unknown_labels.update(str(y) for y in targets.values() if classes and y not in classes)
        moment = now()
        with services.inference.database.write() as session:
            _check_unchanged(session, active)
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
        n_stored += len(chunk)
    return Feedback(
        n_rows=n_rows,
        n_new=n_new,
        n_corrected=n_corrected,
        n_repeated=n_rows - len(last) + n_stored - n_new - n_corrected,
        n_unpredicted=n_unpredicted,
        n_empty=len(last) - len(labelled),
        n_not_kept=len(labelled) - len(kept),
        n_unknown=len(unknown),
        unknown=unknown[:_MAX_NAMED],
        unknown_tasks=dict(unknown_tasks.most_common(_MAX_NAMED)),
        unknown_labels=dict(unknown_labels.most_common(_MAX_NAMED)),
    )


def classes_of(model: Model) -> set[str]:
    """Return the classes of all tasks as text; none of a model that predicts numbers."""
    return {str(label) for task in model.tasks for label in model.classes(task)}


def _check_quota(services: MonitorServices, owner: str) -> None:
    limit = services.inference.settings.max_stored_bytes
    if not limit:
        return
    with services.inference.database.read() as session:
        if stored_bytes(session, owner) >= limit:
            detail = f"the stored bytes have reached the maximum of {limit}; delete something first"
            raise Problem("quota-exceeded", detail)


def _check_unchanged(session: Session, monitor: ActiveMonitor) -> None:
    """Raise a Problem if a monitor was deleted, or excludes more columns, since it was read."""
    if store.refusing_monitors(session, {monitor}, max_bytes=0):
        detail = "the monitor was deleted, or excludes more columns, since this request began"
        raise Problem("wrong-state", f"{detail}: send the rows again")


def _predicted_now(
    services: MonitorServices,
    monitor: ActiveMonitor,
    served: ServableVersion,
    table: FeedbackTable,
    places: Sequence[int],
    *,
    owner: str,
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the rows to store of a table that has tasks and all columns of the model.

    Also the number of rows by task that the model cannot answer for.

    Parameters
    ----------
    places
        Rows of the table that are predicted.

    Raises
    ------
    Problem
        A value is not valid; or the table has no ids, and a column of the model is missing.
    """
    model = services.inference.models.get(served)
    single = model.tasks[0] if len(model.tasks) == 1 else None
    by_task: dict[str, list[int]] = {}
    for i in places:
        task = single if table.tasks is None else table.tasks[i]
        if task is not None:
            by_task.setdefault(task, []).append(i)
    refused: Counter[str] = Counter()
    calls = []
    for task, of_task in by_task.items():
        part = take(table, of_task)
        try:
            rows = _columns_of(services, served, model, task, part)
        except UnknownTask:
            refused[task] += len(of_task)
            continue
        if rows is not None:
            call = Call(task, rows, new_tasks="common")
            with _errors_at(of_task):
                result = compute(services.inference, ResolvedModel(served, "predict"), call)
            ids = RowIds(part.row_ids, len(of_task))
            watched = replace(served, monitors=(monitor,))
            calls.append(MonitoredCall(owner, watched, rows, result, ids, time.time()))
    found = rows_of(services.inference.models, services.columns, calls)
    return [row for _, row in found], refused


@contextmanager
def _errors_at(places: Sequence[int]) -> Iterator[None]:
    """Let errors of some rows of a request have their numbers in the request."""
    try:
        yield
    except (Problem, AlgorithmError) as error:
        problem = problem_of(error)
        for entry in problem.errors:
            if "row" in entry:
                row = places[entry["row"]]
                detail = entry["detail"].replace(f"row {entry['row']}", f"row {row}", 1)
                entry |= {"row": row, "detail": detail}
                problem.detail = detail
        raise problem from None


def _columns_of(
    services: MonitorServices,
    served: ServableVersion,
    model: Model,
    task: str,
    table: FeedbackTable,
) -> TableRows | None:
    """Return the columns of the model in a table; None if ids are all that it has of the rows."""
    of_task, _ = for_tasks(model, [task], "common")
    spec = services.inference.inputs.of_tasks(served, of_task, "predict", [task])
    wanted, rows = spec.columns(), table.rows
    if wanted is None or rows.names is None:
        return None if table.has_ids else rows
    known = {clean_name(name) for name in wanted}
    missing = missing_columns(rows.names, spec)  # before others, which may be renamed ones, go
    rows = rows.without({name for name in rows.names if clean_name(name) not in known})
    rows = rows.with_empty(missing)
    return None if table.has_ids and len(rows.names or ()) < len(wanted) else rows
