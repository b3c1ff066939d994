"""Storage of monitored calls in the background: bounded, in batches, after their responses."""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from algorithms.interface.errors import AlgorithmError
from algorithms.interface.model import Model, apply
from algorithms.numerics.sparse_rows import is_sparse
from algorithms.wrappers.new_tasks import for_tasks
from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column
from algorithms.wrappers.preparation.model import preparation_of
from service.inference.row_ids import MonitoredCall
from service.inference.sent_rows import table_of
from service.models.cache import ModelCache
from service.models.columns import ColumnNames
from service.models.store import ActiveMonitor, ServableVersion
from service.monitoring import store
from service.monitoring.columns import names_of, stored_values
from service.monitoring.sampling import is_kept
from service.observability.logs import log
from service.observability.metrics import Metrics
from service.settings import Settings
from service.storage.background import BackgroundThread
from service.storage.database import UNAVAILABLE, Database

#: Maximum number of rows that wait to be written, and that a turn writes.
MAX_PENDING: Final = 10_000
MAX_PER_TURN: Final = 1_000
#: Rows with more columns are kept without their values.
MAX_COLUMNS: Final = 1_000
_TURN_S: Final = 0.5
#: Share of the time of a core that the thread may take from calls.
_MAX_LOAD: Final = 0.02
#: Time between two looks at quotas, which add up the rows that are stored.
_QUOTA_S: Final = 60.0
_MAX_TEXT: Final = 200
#: Bytes of a stored row besides its values, with those of its indexes.
OVERHEAD_BYTES: Final = 280


class _Kept(NamedTuple):
    """A row that at least one monitor keeps."""

    call: MonitoredCall
    position: int
    row_id: str
    task: str
    x: NDArray[np.float64] | None


class Recorder(BackgroundThread):
    """A queue of calls, and the thread that stores their rows, at its end what is left."""

    def __init__(
        self,
        database: Database,
        models: ModelCache,
        columns: ColumnNames,
        metrics: Metrics,
        settings: Settings,
    ) -> None:
        super().__init__("monitors")
        self._database = database
        self._models = models
        self._columns = columns
        self._count = metrics.count_monitored
        self._max_bytes = settings.max_stored_bytes
        self._calls: deque[MonitoredCall] = deque()
        self._n_pending = 0
        self._dropped: Counter[str] = Counter()
        self._rows: deque[tuple[ActiveMonitor, dict[str, Any]]] = deque()
        self._full: set[ActiveMonitor] = set()
        self._checked: set[ActiveMonitor] = set()
        self._quota_due_s = 0.0
        self._lock = threading.Lock()

    def record(self, call: MonitoredCall) -> None:
        """Queue a call, or count its rows as dropped where the queue is full."""
        n_rows = call.ids.n_rows
        n_kept = _n_kept(call)
        if not any(n_kept.values()):
            return
        with self._lock:
            if self._n_pending and self._n_pending + n_rows > MAX_PENDING:
                self._dropped.update(n_kept)
                return
            self._calls.append(call)
            self._n_pending += n_rows

    def _drop_refused(self, refused: set[ActiveMonitor]) -> None:
        """Drop queued calls that no monitor stores, for which others would find no place."""
        with self._lock:
            calls, self._calls = self._calls, deque()
            for call in calls:
                if refused.issuperset(call.served.monitors):
                    self._dropped.update(_n_kept(call))
                else:
                    self._calls.append(call)

    def _run(self) -> None:
        for _ in self._turns(_TURN_S, max_load=_MAX_LOAD):
            self._turn()
        while (self._calls or self._rows) and self._turn():
            pass

    def _turn(self) -> bool:
        """Store some of the rows; return whether the database accepted them."""
        while self._calls and len(self._rows) < MAX_PER_TURN:
            with self._lock:
                call = self._calls.popleft()
            calls = [call, *self._small_calls(call)]
            try:
                self._rows.extend([*rows_of(self._models, self._columns, calls)])
            except Exception as error:  # noqa: BLE001 - no error may end the thread
                log.error("monitor.error", exc_info=error)
                with self._lock:
                    for call in calls:
                        self._dropped.update(_n_kept(call))
        batch = list(islice(self._rows, MAX_PER_TURN))
        is_stored = self._write(batch)
        with self._lock:
            self._n_pending = len(self._rows) + sum(call.ids.n_rows for call in self._calls)
        return is_stored

    def _small_calls(self, first: MonitoredCall) -> Iterator[MonitoredCall]:
        """Yield the calls behind a call that fit into a turn with it."""
        n_rows = first.ids.n_rows
        with self._lock:
            while self._calls and (n_rows := n_rows + self._calls[0].ids.n_rows) <= MAX_PER_TURN:
                yield self._calls.popleft()

    def _write(self, batch: Sequence[tuple[ActiveMonitor, dict[str, Any]]]) -> bool:
        """Store rows, and how many were dropped; return False if the database is unavailable.

        Rows of a monitor that it refuses for another reason, such as a text that it cannot store,
        are dropped.
        """
        with self._lock:
            dropped, self._dropped = self._dropped, Counter()
        if not batch and not dropped:
            return True
        by_monitor: defaultdict[ActiveMonitor, list[dict[str, Any]]] = defaultdict(list)
        for monitor, row in batch:
            by_monitor[monitor].append(row)
        n_stored, lost = 0, dropped.copy()
        try:
            with self._database.write() as session:
                full = self._full_monitors(session, set(by_monitor))
                for monitor in sorted(by_monitor):
                    rows = by_monitor[monitor]
                    is_stored = monitor not in full and self._are_stored(session, rows)
                    n_stored += len(rows) * is_stored
                    lost[monitor.id] += len(rows) * (not is_stored)
                store.count_dropped(session, +lost)
        except UNAVAILABLE as error:  # the next turn writes them
            log.warning("monitor.failed", error=type(error).__name__)
            with self._lock:
                self._dropped.update(dropped)
            return False
        except Exception as error:  # noqa: BLE001 - no error may end the thread
            log.error("monitor.error", exc_info=error)
            with self._lock:
                self._dropped.update(dropped + Counter(monitor.id for monitor, _ in batch))
            full, lost, n_stored = set(), Counter(), 0
        for _ in batch:
            self._rows.popleft()
        self._count("recorded", n_stored)
        self._count("dropped", lost.total())
        if full:
            self._drop_refused(full)
        return True

    def _are_stored(self, session: Session, rows: Sequence[dict[str, Any]]) -> bool:
        """Store rows of a monitor; return False if the database refuses them."""
        try:
            with session.begin_nested():
                store.add_rows(session, rows)
        except UNAVAILABLE:
            raise
        except Exception as error:  # noqa: BLE001 - a text that it cannot store, or too long a one
            log.error("monitor.error", exc_info=error)
            return False
        return True

    def _full_monitors(self, session: Session, monitors: set[ActiveMonitor]) -> set[ActiveMonitor]:
        """Return which monitors may store no more rows; quotas are looked at now and then."""
        is_due = time.monotonic() > self._quota_due_s or not monitors <= self._checked
        full = store.refusing_monitors(session, monitors, self._max_bytes if is_due else 0)
        if is_due:
            self._quota_due_s = time.monotonic() + _QUOTA_S
            self._full, self._checked = full, monitors
        return full | (self._full & monitors)


def rows_of(
    models: ModelCache, columns: ColumnNames, calls: Sequence[MonitoredCall]
) -> Iterator[tuple[ActiveMonitor, dict[str, Any]]]:
    """Yield the rows of calls to store, those of one version and task computed together."""
    groups: defaultdict[tuple[str, str, int], list[_Kept]] = defaultdict(list)
    for call in calls:
        for row in _kept_rows(call):
            width = -1 if row.x is None else len(row.x)
            groups[call.served.id, row.task, width].append(row)
    for rows in groups.values():
        model = models.get(rows[0].call.served)
        yield from _group(model, columns, rows[0].task, rows)


def _group(
    of_all: Model, column_names: ColumnNames, task: str, rows: list[_Kept]
) -> Iterator[tuple[ActiveMonitor, dict[str, Any]]]:
    served = rows[0].call.served
    model, _ = for_tasks(of_all, [task], "common")
    has_labels = bool(model.classes(task)) if task in model.tasks else False
    X = None if rows[0].x is None else np.stack([row.x for row in rows if row.x is not None])
    preparation = None if X is None else preparation_of(model)
    columns = () if preparation is None else preparation.of(task).columns
    sure = [{}] * len(rows) if X is None else _confidence(model, served, X, task)
    names = names_of(column_names, served.id, task, 0 if X is None else X.shape[1])
    for monitor in served.monitors:
        stored = [None] * len(rows) if X is None else stored_values(X, names, monitor.never_keep)
        for row, more, values in zip(rows, sure, stored, strict=True):
            if not is_kept(row.row_id, monitor.share):
                continue
            output = row.call.result.outputs[row.position]
            unknown = _unknown_texts(columns, row, monitor.never_keep)
            yield (
                monitor,
                {
                    "monitor_id": monitor.id,
                    "row_id": row.row_id,
                    "version": served.version,
                    "task": task,
                    "prediction": str(output) if has_labels else float(output),
                    "low": None,
                    "high": None,
                    "probability": None,
                    **more,
                    "values": values,
                    "unknown": unknown or None,
                    "size_bytes": OVERHEAD_BYTES + len(row.row_id) + len(values or b""),
                    "created_at": datetime.fromtimestamp(row.call.called_at, UTC),
                },
            )


def _n_kept(call: MonitoredCall) -> dict[str, int]:
    """Return how many rows of a call each monitor keeps; of several, how many are expected.

    The server waits for it, and hashing a thousand ids takes milliseconds.
    """
    monitors = call.served.monitors
    if call.ids.n_rows == 1:
        (row_id,) = call.ids.all()
        return {monitor.id: int(is_kept(row_id, monitor.share)) for monitor in monitors}
    return {monitor.id: max(1, round(call.ids.n_rows * monitor.share)) for monitor in monitors}


def _kept_rows(call: MonitoredCall) -> Iterator[_Kept]:
    share = max(monitor.share for monitor in call.served.monitors)
    task, inputs = call.result.task, call.result.inputs
    position = 0
    ids = call.ids.all()
    for X in inputs:
        is_left_out = is_sparse(X) or X.shape[1] > MAX_COLUMNS
        for i in range(X.shape[0]):
            if is_kept(ids[position], share):
                of_row = task if isinstance(task, str) else task[position]
                x = None if is_left_out else X[i]
                yield _Kept(call, position, ids[position], of_row, x)
            position += 1


def _confidence(
    model: Model, served: ServableVersion, X: NDArray[np.float64], task: str
) -> list[dict[str, float]]:
    """Return the interval or the probability of the predicted class of each row, if there are."""
    try:
        if "predict_interval" in served.methods:
            ends = apply(model, "predict_interval", X, task=task)
            return [
                {"low": float(low), "high": float(high)} if np.isfinite((low, high)).all() else {}
                for low, high in ends
            ]
        if "predict_proba" in served.methods:
            p = apply(model, "predict_proba", X, task=task).max(axis=1)
            return [{"probability": float(value)} for value in p]
    except AlgorithmError:  # too few rows, or no calibration of new tasks
        pass
    return [{}] * len(X)


def _unknown_texts(
    columns: Sequence[Column], row: _Kept, never_keep: Collection[str]
) -> dict[str, str]:
    """Return the texts of categories that are not of the training rows, by column."""
    if row.x is None or not (columns and (row.x == UNKNOWN_LEVEL).any()):
        return {}
    places = np.flatnonzero(row.x == UNKNOWN_LEVEL)
    names = [columns[int(j)].name for j in places if columns[int(j)].kind == "category"]
    unknown = [name for name in names if name not in never_keep]
    table = table_of(row.call.rows) if unknown else None
    texts = {}
    for name in unknown:
        value: Any = ""
        if table is not None and name in (table.names or ()):
            value = table.values_of(name)[row.position]
            value = value.as_py() if hasattr(value, "as_py") else value
        texts[name] = str(value)[:_MAX_TEXT]
    return texts
