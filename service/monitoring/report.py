"""How the version of an alias does now, computed from its rows and targets."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import ne
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.monitoring.columns import ALL_TASKS, ColumnChange, column_changes
from algorithms.evaluation.monitoring.errors import (
    ErrorChange,
    TaskErrors,
    covered,
    error_changes,
    pooled_ratios,
    squared_errors,
)
from algorithms.evaluation.monitoring.pooling import Z_95
from algorithms.interface.methods import DEFAULT_LEVEL
from algorithms.wrappers.calibration.quality import reliability
from service.models.calibration_schemas import ReliabilityPoint
from service.models.store import NamedVersion, ServableVersion
from service.monitoring import store
from service.monitoring.context import MonitorServices
from service.monitoring.report_schemas import (
    ColumnState,
    Coverage,
    MonitorReport,
    ObservedError,
    TaskState,
)
from service.monitoring.training import TrainedColumns, find_promises, trained_columns
from service.monitoring.verdict import describe
from service.storage.database import now
from service.storage.tables import MonitorRow

#: Newest rows that a report reads.
MAX_ROWS: Final = 100_000
#: Columns that a report lists, and values of categories for each.
_MAX_COLUMNS: Final = 50
_MAX_VALUES: Final = 20
#: Share of years in which nothing changes that have any false alarm.
YEARLY_ALPHA: Final = 0.05
_DAY: Final = timedelta(days=1)
#: Length of the shortest periods, in days.
_MIN_DAYS: Final = 1 / 24
#: Half the width of an interval of DEFAULT_LEVEL in standard deviations of normal errors.
_HALF_WIDTH: Final = 1.6449
#: How many times what the error may be at most the lower end of an interval is if it is far above:
#: of a task, and of all, of which more rows are known.
_FAR: Final = 2
_FAR_OF_ALL: Final = 1.1


@dataclass(frozen=True, slots=True)
class _Period:
    """A stretch of time in which evidence is collected."""

    start: datetime
    days: float

    def day_of(self, moment: datetime) -> float:
        return (moment - self.start) / _DAY

    def has(self, moment: datetime) -> bool:
        return 0 <= self.day_of(moment) < self.days

    def alpha(self) -> float:
        """Return the probability of false alarms, of columns or of errors."""
        return YEARLY_ALPHA * self.days / 365 / 2


def make_report(
    services: MonitorServices,
    monitor: MonitorRow,
    version: NamedVersion,
    served: ServableVersion,
) -> MonitorReport:
    """Return how a version does, by the rows that the monitor of an alias has kept."""
    moment, database = now(), services.inference.database
    since = moment - monitor.days * _DAY
    with database.read() as session:
        rows = store.joined_rows(
            session, monitor.id, served.version, since=since, limit=MAX_ROWS + 1
        )
        trained = trained_columns(services, session, served)
    is_partial = len(rows) > MAX_ROWS
    rows = rows[-MAX_ROWS:]
    model = services.inference.models.get(served)
    is_rate = any(model.classes(task) for task in model.tasks)
    promises = find_promises(version.row.report, trained, is_rate=is_rate)
    periods = _periods(monitor, moment, rows[0].created_at if is_partial else since)
    errors = [_errors(rows, promises, period, is_rate=is_rate) for period in periods]
    columns = _columns(rows, trained, periods, monitor)
    by_task: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if row.prediction is not None:
            by_task[row.task].append(row)
    shown = _Period(since, monitor.days)
    present, of_all = _errors(rows, promises, shown, is_rate=is_rate)
    pooled = pooled_ratios(present, promises, is_rate=is_rate)
    own = {} if pooled is None else dict(zip(pooled[0], np.exp(pooled[1].own), strict=True))

    def state(task: str | None, of_task: Sequence[Any], observed: ErrorChange | None) -> TaskState:
        alarms = [
            period.start + alarm.alarm_day * _DAY
            for period, (changes, common) in zip(periods, errors, strict=True)
            if (alarm := common if task is None else changes.get(task)) is not None
            and alarm.alarm_day is not None
        ]
        return TaskState(
            task=task,
            n_rows=len(of_task),
            n_targets=sum(row.target is not None for row in of_task),
            is_new=task is not None and task not in trained.tasks,
            error=_observed(
                observed,
                min(alarms, default=None),
                is_rate=is_rate,
                far=_FAR_OF_ALL if task is None else _FAR,
            ),
            coverage=_coverage(of_task),
            estimated_error=_estimate(of_task, is_rate=is_rate),
            own_change=own.get(task) if task is not None else None,
        )

    predicted = [row for of_task in by_task.values() for row in of_task]
    overall = state(None, predicted, of_all)
    states = [state(task, of_task, present.get(task)) for task, of_task in sorted(by_task.items())]
    states.sort(key=_rank)
    verdict = describe(overall, states, columns, pooled, n_rows=len(rows))
    change = None if pooled is None else pooled[1]
    half = 0.0 if change is None else Z_95 * change.mean_se
    return MonitorReport(
        model=version.name,
        alias=monitor.alias,
        version=served.version,
        verdict=verdict.kind,
        sentences=verdict.sentences,
        changed_tasks=verdict.tasks,
        common_change=None if change is None else float(np.exp(change.mean)),
        common_low=None if change is None else float(np.exp(change.mean - half)),
        common_high=None if change is None else float(np.exp(change.mean + half)),
        since=periods[0].start,
        overall=overall,
        tasks=states,
        columns=columns,
        reliability=_reliability(predicted),
        new_tasks=[s.task for s in states if s.is_new and s.task is not None],
        unknown_categories=_unknown(rows),
        n_dropped=monitor.n_dropped,
        is_partial=is_partial,
    )


def _rank(state: TaskState) -> tuple[bool, bool, str]:
    """Return the key that puts tasks with alarms first, then those far above their promise."""
    error = state.error
    has_alarm = error is not None and error.alarm_since is not None
    return not has_alarm, error is None or not error.is_far_above, state.task or ""


def _periods(monitor: MonitorRow, moment: datetime, since: datetime) -> list[_Period]:
    """Return the present period and the one before it, shorter ones if rows before a time are gone.

    As time goes on, rows at the start of a period must not go, or its tests would begin again.
    """
    age, days = (moment - monitor.created_at) / _DAY, monitor.days / 2
    known = (since - monitor.created_at) / _DAY
    while max(int(age / days) - 1, 0) * days < known and days > _MIN_DAYS:
        days /= 2
    numbers = [k for k in (int(age / days) - 1, int(age / days)) if k >= 0]
    return [_Period(monitor.created_at + k * days * _DAY, days) for k in numbers]


def _errors(
    rows: Sequence[Any], promises: Mapping[str, Any], period: _Period, *, is_rate: bool
) -> tuple[dict[str, ErrorChange], ErrorChange | None]:
    """Return the changes of the errors of the rows of a period, whenever their targets came.

    Rows are kept for two periods, in which targets of the first rows may come.
    """
    by_task: defaultdict[str, list[tuple[Any, Any, float, float]]] = defaultdict(list)
    for row in rows:
        if row.prediction is None or row.target is None or not period.has(row.created_at):
            continue
        day, labelled = period.day_of(row.created_at), period.day_of(row.labelled_at)
        by_task[row.task].append((row.prediction, row.target, max(day, labelled), day))
    errors = {}
    for task, found in by_task.items():
        predictions, targets, *days = zip(*sorted(found, key=lambda one: one[2]), strict=True)
        wrong = map(ne, predictions, targets)
        losses = np.array([*wrong], float) if is_rate else squared_errors(predictions, targets)
        errors[task] = TaskErrors(losses, *map(np.array, days))
    return error_changes(
        errors, promises, is_rate=is_rate, n_days=2 * period.days, alpha=period.alpha()
    )


def _columns(
    rows: Sequence[Any], trained: TrainedColumns, periods: Sequence[_Period], monitor: MonitorRow
) -> list[ColumnState]:
    """Return the columns with alarms, and others with the most evidence in the present period."""
    left_out = frozenset(monitor.never_keep)
    histograms = {
        key: histogram for key, histogram in trained.histograms.items() if key[1] not in left_out
    }
    found: dict[tuple[str, str], ColumnState] = {}
    for period in periods:
        matrices, days = _matrices(rows, trained, period)
        values = {
            (task, column): matrices[task][:, trained.places[task][column]]
            for task, column in histograms
            if task in matrices
        }
        changes = column_changes(
            histograms,
            values,
            days,
            n_days=period.days,
            alpha=period.alpha(),
            seed=int(period.start.timestamp()),
        )
        for change in changes:
            state = _column_state(change, period, trained, values)
            earlier = found.get((change.task, change.column))
            if earlier is None or earlier.alarm_since is None or not state.n_rows:
                found[change.task, change.column] = state if state.n_rows else earlier or state
    ordered = sorted(found.values(), key=lambda s: (s.alarm_since is None, -s.evidence))
    return [state for state in ordered if state.n_rows][:_MAX_COLUMNS]


def _matrices(
    rows: Sequence[Any], trained: TrainedColumns, period: _Period
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Return the values and the days of the rows in a period, by task."""
    parts: defaultdict[str, list[NDArray[np.float64]]] = defaultdict(list)
    days: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.values is None or row.task not in trained.places or not period.has(row.created_at):
            continue
        x = np.frombuffer(row.values, "<f8")
        if not parts[row.task] or len(parts[row.task][0]) == len(x):
            parts[row.task].append(x)
            days[row.task].append(period.day_of(row.created_at))
    matrices = {task: np.stack(of_task) for task, of_task in parts.items()}
    return matrices, {task: np.array(of_task) for task, of_task in days.items()}


def _column_state(
    change: ColumnChange,
    period: _Period,
    trained: TrainedColumns,
    values: Mapping[tuple[str, str], NDArray[np.float64]],
) -> ColumnState:
    key = change.task, change.column
    since = None if change.alarm_day is None else period.start + change.alarm_day * _DAY
    state = ColumnState(
        task=change.task or None,
        column=change.column,
        n_rows=change.n_rows,
        stability_index=change.stability_index,
        evidence=change.log_e,
        alarm_since=since,
    )
    if change.task == ALL_TASKS or key not in values:
        return state
    histogram = trained.histograms[key]
    new = values[key]
    counts = histogram.all_counts()
    bins = histogram.bins(new[np.isfinite(new) | np.isnan(new)])
    state.before = (counts / max(counts.sum(), 1)).tolist()
    state.now = (np.bincount(bins, minlength=len(counts)) / max(len(bins), 1)).tolist()
    state.bins = trained.bin_names[key]
    return state


def _observed(
    change: ErrorChange | None, since: datetime | None, *, is_rate: bool, far: float
) -> ObservedError | None:
    if change is None:
        return None
    power = 1.0 if is_rate else 0.5
    low, promised = change.low**power, change.promised and change.promised**power
    bound = math.inf if change.bound is None else change.bound**power
    return ObservedError(
        metric="error_rate" if is_rate else "rmse",
        n_rows=change.n_rows,
        value=change.loss**power,
        low=low,
        high=change.high**power,
        promised=promised,
        alarm_since=since,
        is_far_above=low > far * bound,
    )


def _coverage(rows: Sequence[Any]) -> Coverage | None:
    hits = [
        row.low <= float(row.target) <= row.high
        for row in rows
        if row.low is not None and row.high is not None and row.target is not None
    ]
    if not hits:
        return None
    share, low, high = covered(hits)
    return Coverage(level=DEFAULT_LEVEL, share=share, low=low, high=high)


def _estimate(rows: Sequence[Any], *, is_rate: bool) -> float | None:
    """Return the error of rows without targets that intervals or probabilities expect."""
    unlabelled = [row for row in rows if row.target is None]
    if is_rate:
        wrong = [1 - row.probability for row in unlabelled if row.probability is not None]
        return float(np.mean(wrong)) if wrong else None
    widths = [(r.high - r.low) / 2 / _HALF_WIDTH for r in unlabelled if r.low is not None]
    return float(np.sqrt(np.mean(np.square(widths)))) if widths else None


def _reliability(rows: Sequence[Any]) -> list[ReliabilityPoint]:
    pairs = [
        (row.probability, row.prediction == row.target)
        for row in rows
        if row.probability is not None and row.target is not None
    ]
    if not pairs:
        return []
    p, is_right = np.array(pairs).T
    return [ReliabilityPoint.model_validate(point) for point in reliability(p, is_right > 0)]


def _unknown(rows: Sequence[Any]) -> dict[str, dict[str, int]]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for column, text in (row.unknown or {}).items():
            counts[column][text] += 1
    return {column: dict(texts.most_common(_MAX_VALUES)) for column, texts in counts.items()}
