"""The steps of a renewal from a training to a decision: trial, promotion, and the way back."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeAlias

from sqlalchemy.orm import Session

from service.errors.problems import Problem
from service.models import alias_store
from service.models.store import aliases_of, versions_of_jobs
from service.monitoring import store as monitor_store
from service.monitoring.report import MAX_ROWS
from service.renewal import store
from service.renewal.clearing import drop_copies, fail
from service.renewal.context import RenewalServices
from service.renewal.schemas import RenewalSpec
from service.renewal.store import Renewing, note, stepping
from service.renewal.trial import (
    MIN_ROWS,
    days_to_weigh,
    is_closed,
    state_of_trial,
    usual_losses,
    weighed_day,
)
from service.storage.database import now
from service.storage.job_states import FINAL, JobState
from service.storage.tables import JobRow, MonitorRow

_DAY: Final = timedelta(days=1)
#: A step by hand; the last argument is its reason.
ByHand: TypeAlias = Callable[[Session, Renewing, str | None], None]


def follow(services: RenewalServices, seen: Renewing) -> None:
    """Begin the trial once the training has ended."""
    with services.database.read() as session:
        job = session.get(JobRow, seen.row.job_id)
        state = JobState.CANCELLED if job is None else JobState(job.state)
        number = versions_of_jobs(session, [str(seen.row.job_id)]).get(str(seen.row.job_id))
        champion = store.version_of(session, seen.monitor, seen.row.champion)
    if state not in FINAL:
        return
    if state != JobState.SUCCEEDED or number is None:
        error = (job.error or {}).get("detail", "") if job is not None else ""
        fail(services, seen, f"The training has ended as {state}. {error}".strip())
        return
    if champion is None:
        fail(services, seen, f"Version {seen.row.champion}, which was to be beaten, was deleted.")
        return
    usual = _usual(services, seen)
    with stepping(services.database, seen) as (session, renewing):
        row = renewing.row
        drop_copies(session, row, keeps_manifest=True)
        row.challenger, row.trial_at = number, now()
        row.n_trials = _count_trial(renewing.monitor, row.champion)
        row.trial = {"usual": usual, "days": []}
        row.state = "trial"
        reason = f"Version {number} is trained; version {row.champion} still answers."
        note(session, renewing, "renewal.trial", reason)


def _count_trial(monitor: MonitorRow, champion: int | None) -> int:
    """Count one more challenger of a champion, and return their number.

    The monitor keeps it, though the renewal ends or another version is the champion for a time.
    """
    n_trials = int(monitor.trials.get(str(champion), 0)) + 1
    monitor.trials = {**monitor.trials, str(champion): n_trials}
    return n_trials


def _usual(services: RenewalServices, renewing: Renewing) -> dict[str, float]:
    """Return usual losses of the champion; where it has few rows, of all versions before."""
    if is_rate(services, renewing):
        return {}
    row, known = renewing.row, list[Any]()
    since = row.copied_at - renewing.monitor.days * _DAY
    for version in (row.champion, None):
        if len(known) < MIN_ROWS:
            with services.database.read() as session:
                rows = monitor_store.joined_rows(
                    session, row.monitor_id, version, since=since, limit=MAX_ROWS
                )
            known = [r for r in rows if _is_known(r) and r.labelled_at <= row.copied_at]
    return usual_losses(known)


def _is_known(row: Any) -> bool:
    return all(isinstance(value, int | float) for value in (row.prediction, row.target))


def is_rate(services: RenewalServices, renewing: Renewing) -> bool:
    """Return whether losses are wrong classes."""
    inference = services.monitoring.inference
    served = inference.resolver.find(renewing.owner, renewing.name, renewing.row.champion)
    model = inference.models.get(served)
    return any(model.classes(task) for task in model.tasks)


def weigh(services: RenewalServices, seen: Renewing) -> None:
    """Weigh the days of a trial that are over, and promote the challenger or end the trial."""
    rule, row = RenewalSpec.model_validate(seen.row.rule), seen.row
    with services.database.read() as session:
        versions = [store.version_of(session, seen.monitor, n) for n in (None, row.challenger)]
        points_at = versions[0] and versions[0].version
        new = []
        if points_at == row.champion and versions[1] is not None:
            losses_are_rates, usual = is_rate(services, seen), (row.trial or {})["usual"]
            moment = now()
            for day in days_to_weigh(row, rule, moment):
                rows = store.paired_rows(session, seen, day, day + _DAY, limit=MAX_ROWS)
                weighed = weighed_day(rows, day, usual, is_rate=losses_are_rates)
                new += [weighed] if rows or is_closed(day, rule, moment) else []
    if points_at != row.champion or versions[1] is None:
        gone = "the challenger was deleted" if versions[1] is None else "the alias was moved"
        end(services, seen, f"The trial has ended: {gone}.")
        return
    is_over = row.trial_at is not None and now() - row.trial_at > rule.trial_days * _DAY
    if not new and not is_over:
        return
    with stepping(services.database, seen) as (session, renewing):
        row = renewing.row
        row.trial = {**(row.trial or {}), "days": [*(row.trial or {})["days"], *new]}
        state = state_of_trial(row)
        said = f"on {state.n_rows} rows of {state.n_days} days"
        is_better = state.evidence >= state.needed and not state.worse_tasks
        if rule.promote == "test" and is_better:
            promote(session, renewing, f"Version {row.challenger} is better {said}.")
        elif is_over:
            _end(session, renewing, f"Version {row.challenger} is not shown to be better {said}.")


def promote(session: Session, renewing: Renewing, reason: str) -> None:
    """Move the alias to the challenger."""
    row = renewing.row
    version = store.version_of(session, renewing.monitor, row.challenger)
    if version is None:
        raise Problem("wrong-state", f"version {row.challenger} was deleted")
    alias_store.move(session, version, renewing.monitor.alias)
    row.previous_version, row.state = row.champion, "waiting"
    note(session, renewing, "renewal.promoted", reason)
    row.trial = None


def promote_by_hand(session: Session, renewing: Renewing, reason: str | None) -> None:
    """Move the alias to the challenger, whatever the test says.

    Raises
    ------
    Problem
        There is no challenger on trial.
    """
    row = renewing.row
    if row.state != "trial":
        raise Problem("wrong-state", f"the renewal is {row.state}; no challenger is on trial")
    present = store.version_of(session, renewing.monitor, None)
    if present is None or present.version != row.champion:
        raise Problem("wrong-state", "the alias was moved, which ends the trial")
    said = f"Version {row.challenger} was promoted by hand."
    promote(session, renewing, said if reason is None else f"{said} {reason}")


def put_back(session: Session, renewing: Renewing, reason: str | None) -> None:
    """Move the alias to the version before the last promotion; the other is a challenger again.

    Raises
    ------
    Problem
        There is no such version.
    """
    row = renewing.row
    if row.previous_version is None:
        raise Problem("wrong-state", "nothing was promoted, so there is no old version")
    version = store.version_of(session, renewing.monitor, row.previous_version)
    present = store.version_of(session, renewing.monitor, None)
    if version is None or present is None:
        raise Problem("wrong-state", f"version {row.previous_version} was deleted")
    alias_store.move(session, version, renewing.monitor.alias)
    # a person may have moved the alias, or another one, meanwhile
    is_made_here = session.get_one(JobRow, present.job_id).is_challenger
    present.is_challenger = is_made_here and present.id not in aliases_of(session, [present.id])
    row.previous_version = None
    said = f"Version {version.version} was put back by hand."
    note(session, renewing, "renewal.put_back", said if reason is None else f"{said} {reason}")


def end(services: RenewalServices, seen: Renewing, reason: str) -> None:
    """End a trial without a promotion."""
    with stepping(services.database, seen) as (session, renewing):
        _end(session, renewing, reason)


def _end(session: Session, renewing: Renewing, reason: str) -> None:
    renewing.row.state, renewing.row.trial = "waiting", None
    note(session, renewing, "renewal.ended", reason)
