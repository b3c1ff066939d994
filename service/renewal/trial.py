"""The trial of a challenger: it predicts the rows of the champion, and days are weighed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
from operator import ne
from typing import Any, Final

import numpy as np

from algorithms.evaluation.monitoring import trial as tests
from algorithms.evaluation.monitoring.errors import squared_errors
from algorithms.interface.errors import AlgorithmError
from algorithms.interface.model import apply
from algorithms.wrappers.new_tasks import for_tasks
from service.models.store import ServableVersion
from service.monitoring import store as monitor_store
from service.monitoring.context import MonitorServices
from service.monitoring.recorder import OVERHEAD_BYTES
from service.renewal import store
from service.renewal.schemas import RenewalSpec, Trial
from service.renewal.store import Renewing
from service.renewal.values import columns_for, decode, encode_for
from service.storage.database import now
from service.storage.tables import MonitoredRow, RenewalRow

#: Rows that a turn predicts.
BATCH_ROWS: Final = 500
#: Tasks whose losses are followed one by one, those with the most rows.
_MAX_TASKS: Final = 200
#: Usual losses are known by so many rows.
MIN_ROWS: Final = 20
_DAY: Final = timedelta(days=1)
#: Rows may be stored so much later than they were called.
_LATE: Final = timedelta(minutes=10)


def usual_losses(rows: Sequence[Any]) -> dict[str, float]:
    """Return the usual squared error by task, and of all tasks as ``""``, before the trial.

    Parameters
    ----------
    rows
        Labelled rows of the champion, which the test does not use.
    """
    by_task: defaultdict[str, list[float]] = defaultdict(list)
    losses = squared_errors([row.prediction for row in rows], [row.target for row in rows])
    for row, loss in zip(rows, losses.tolist(), strict=True):
        by_task[row.task].append(loss)
    pooled = [loss for losses in by_task.values() for loss in losses]
    if len(pooled) < MIN_ROWS:
        return {"": 1.0} if not pooled else {"": tests.usual_loss(pooled)}
    own = sorted(by_task.items(), key=lambda item: -len(item[1]))[:_MAX_TASKS]
    usual = {task: tests.usual_loss(losses) for task, losses in own if len(losses) >= MIN_ROWS}
    return {"": tests.usual_loss(pooled), **usual}


def answers(
    services: MonitorServices, renewing: Renewing, rows: Sequence[MonitoredRow]
) -> list[dict[str, Any]]:
    """Return the predictions of the challenger for rows of the champion, to be stored.

    A row that it cannot predict has an empty one.
    """
    find = services.inference.resolver.find
    ours = find(renewing.owner, renewing.name, renewing.row.champion)
    theirs = find(renewing.owner, renewing.name, renewing.row.challenger)
    found = []
    ordered = sorted(rows, key=lambda row: (row.task, len(row.values or b"")))
    for (task, _), group in groupby(ordered, key=lambda row: (row.task, len(row.values or b""))):
        of_task = list(group)
        outputs = _predict(services, ours, theirs, task, of_task)
        for row, output in zip(of_task, outputs, strict=True):
            found.append(
                {
                    "monitor_id": row.monitor_id,
                    "row_id": row.row_id,
                    "version": theirs.version,
                    "task": task,
                    "prediction": output,
                    **dict.fromkeys(("low", "high", "probability", "values", "unknown")),
                    "size_bytes": OVERHEAD_BYTES + len(row.row_id),
                    "created_at": row.created_at,
                }
            )
    return found


def _predict(
    services: MonitorServices,
    ours: ServableVersion,
    theirs: ServableVersion,
    task: str,
    rows: Sequence[MonitoredRow],
) -> list[Any]:
    nothing = [None] * len(rows)
    try:
        width = len(rows[0].values or b"") // 8
        decoded = decode(columns_for(services, ours, task, width), rows)
        X = encode_for(services, decoded, theirs, task)
        if len(X) != len(rows) or np.isinf(X).any():
            return nothing
        model, _ = for_tasks(services.inference.models.get(theirs), [task], "common")
        outputs = apply(model, "predict", X, task=task)
    except AlgorithmError:
        return nothing
    has_labels = bool(model.classes(task)) if task in model.tasks else False
    return [str(output) if has_labels else float(output) for output in outputs]


def days_to_weigh(row: RenewalRow, rule: RenewalSpec, moment: datetime) -> list[datetime]:
    """Return the beginnings of the days that are over for long enough, and not weighed."""
    weighed = {day["day"] for day in (row.trial or {"days": []})["days"]}
    first = datetime.combine(row.copied_at.date(), time(), UTC)
    last = moment - (1 + rule.label_days) * _DAY
    n_days = int((last - first) / _DAY) + 1 if last >= first else 0
    days = [first + k * _DAY for k in range(n_days)]
    return [day for day in days if day.date().isoformat() not in weighed]


def is_closed(day: datetime, rule: RenewalSpec, moment: datetime) -> bool:
    """Return whether a day without labels is left out for good: another day was waited for them."""
    return moment - day >= (2 + rule.label_days) * _DAY


def weighed_day(
    rows: Sequence[Any], day: datetime, usual: Mapping[str, float], *, is_rate: bool
) -> dict[str, Any]:
    """Return the mean advantage of the challenger on a day, over all and by task.

    Without rows that have both predictions and a target, only that there are none.
    """
    if not rows:
        return {"day": day.date().isoformat(), "n": 0}
    targets = [row.target for row in rows]
    ours, theirs = (
        list(map(ne, predictions, targets)) if is_rate else squared_errors(predictions, targets)
        for predictions in ([row.champion for row in rows], [row.challenger for row in rows])
    )
    scale = [1.0 if is_rate else usual.get(row.task, usual[""]) for row in rows]
    gains = tests.advantage(ours, theirs, scale)
    by_task: defaultdict[str, list[float]] = defaultdict(list)
    for row, gain in zip(rows, gains.tolist(), strict=True):
        by_task[row.task].append(gain)
    largest = sorted(by_task.items(), key=lambda item: -len(item[1]))[:_MAX_TASKS]
    return {
        "day": day.date().isoformat(),
        "n": len(rows),
        "mean": float(gains.mean()),
        "tasks": {task: [len(of_task), float(np.mean(of_task))] for task, of_task in largest},
    }


def state_of_trial(row: RenewalRow) -> Trial:
    """Return what is known of a challenger, by the days that are weighed."""
    assert row.trial is not None  # a renewal on trial
    assert row.champion is not None
    assert row.challenger is not None
    days = [day for day in row.trial["days"] if day["n"]]
    n = [day["n"] for day in days]
    means = [day["mean"] for day in days]
    evidence = tests.trial_evidence(means, n)
    return Trial(
        champion=row.champion,
        challenger=row.challenger,
        n_days=len(days),
        n_rows=sum(n),
        gain=float(np.average(means, weights=n)) if days else None,
        evidence=float(evidence.max(initial=0.0)),
        needed=tests.needed_evidence(row.n_trials),
        worse_tasks=tests.shown_worse(_evidence_against(days)),
    )


def _evidence_against(days: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the evidence by task that the challenger is worse."""
    by_task: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for day in days:
        for task, (n, mean) in day["tasks"].items():
            by_task[task].append((n, -mean))
    return {
        task: float(tests.trial_evidence([m for _, m in pairs], [n for n, _ in pairs]).max())
        for task, pairs in by_task.items()
    }


def predict_some(
    services: MonitorServices, renewing: Renewing, after: datetime
) -> tuple[datetime, bool]:
    """Have the challenger predict some rows that were called after a time.

    Returns the time up to which all are predicted, and whether there may be more after it.
    """
    database, moment = services.inference.database, now()
    with database.read() as session:
        rows = store.unanswered_rows(session, renewing, after=after, limit=BATCH_ROWS)
        limit = services.inference.settings.max_stored_bytes
        is_full = bool(monitor_store.full_monitors(session, {renewing.monitor.id}, limit))
    if is_full:
        return after, False
    if rows:
        stored = answers(services, renewing, rows)
        with database.write() as session:
            ids = [row.row_id for row in rows]
            monitor_store.lock_rows(session, renewing.monitor.id)
            there = monitor_store.known_rows(session, renewing.monitor.id, ids)
            monitor_store.add_rows(session, [row for row in stored if row["row_id"] in there])
    has_more = len(rows) == BATCH_ROWS
    return max(after, (rows[-1].created_at if has_more else moment) - _LATE), has_more
