"""The steps of a renewal: each is one transaction from the state that the last one has stored."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias

from sqlalchemy.orm import Session

from algorithms.interface.errors import AlgorithmError
from service.access.stored_bytes import StoredBytesExceeded
from service.datasets import store as dataset_store
from service.datasets.combine import create_combined
from service.datasets.manifest import feature_names_by_task
from service.datasets.selection import Combination, Selection
from service.errors.problems import Problem
from service.http.idempotency import fingerprint
from service.jobs.queue import store as job_store
from service.jobs.spec_schemas import RepeatSpec
from service.jobs.submission import Origin, repeated, spec_of, submit
from service.models import alias_store
from service.models.store import aliases_of, versions_of_jobs
from service.monitoring import alarms
from service.monitoring import store as monitor_store
from service.monitoring.report import MAX_ROWS
from service.renewal import store
from service.renewal.context import RenewalServices
from service.renewal.copying import kept_rows, labelled_tasks, name_of, store_rows, why_not
from service.renewal.cron import Cron
from service.renewal.schemas import RenewalSpec
from service.renewal.store import Listed, Renewing, note, stepping
from service.renewal.trial import MIN_ROWS, days_to_weigh, state_of_trial, usual_losses, weighed_day
from service.storage.database import now
from service.storage.dataset_states import DELETED, UNFINISHED_DATASETS, DatasetState
from service.storage.job_states import FINAL, JobState
from service.storage.tables import DatasetRow, JobRow, MonitorRow, RenewalRow, VersionRow

_DAY: Final = timedelta(days=1)
#: Time after which a dataset that is not combined is given up.
_COMBINE_TIMEOUT: Final = timedelta(hours=1)
#: A step by hand; the last argument is its reason.
ByHand: TypeAlias = Callable[[Session, Renewing, str | None], None]
_BROKEN: Final = (Problem, AlgorithmError, StoredBytesExceeded)


def check_version(session: Session, champion: VersionRow, never_keep: Sequence[str]) -> str:
    """Return the id of the dataset to which labelled rows are added, to train a version again.

    Parameters
    ----------
    never_keep
        Columns that the monitor does not keep.

    Raises
    ------
    Problem
        Labelled rows cannot be added to it, or the version cannot be trained again.
    """
    job, dataset = store.origin_of(session, champion)
    if spec_of(job).get("adapt"):
        detail = "the version was adapted from another one; train a new model with all tasks"
        raise Problem("wrong-state", detail)
    if "predict" not in champion.methods:
        raise Problem("wrong-state", "the model predicts no targets, so none can be compared")
    why = why_not(None if dataset is None else dataset.manifest)
    if why is not None:
        raise Problem("wrong-state", f"labelled rows cannot be added: {why}")
    assert dataset is not None  # checked by why_not
    assert dataset.manifest is not None  # checked by why_not
    names = {
        name
        for of_task in feature_names_by_task(dataset.manifest).values()
        for name in of_task or ()
    }
    lost = sorted(names.intersection(never_keep))
    if lost:
        detail = f"the monitor never keeps '{lost[0]}', which the model is trained on"
        raise Problem("wrong-state", detail)
    return dataset.id


def look(services: RenewalServices, seen: Renewing) -> None:
    """Begin a training if the rule of a waiting renewal asks for it."""
    rule = RenewalSpec.model_validate(seen.row.rule)
    with services.database.read() as session:
        n_new = store.count_new_targets(session, seen)
    why = None
    if rule.rows is not None and n_new >= rule.rows:
        why = f"{n_new} rows have got their target since the last training."
    elif rule.cron is not None and seen.row.due_at is not None and now() >= seen.row.due_at:
        why = f"The time '{rule.cron}' has come, with {n_new} new targets."
    elif rule.alarm_days is not None and n_new:
        why = _alarm(seen, rule.alarm_days)
    if why is None:
        return
    with stepping(services.database, seen) as (session, renewing):
        row = renewing.row
        if rule.cron is not None:
            row.due_at = Cron.parse(rule.cron).after(now())
        if n_new:
            row.state, row.attempt = "copying", row.attempt + 1
            note(session, renewing, "renewal.started", why)


def _alarm(seen: Renewing, days: int) -> str | None:
    """Return why to train, if an alarm held for long at a look since the last training."""
    since, looked_at, copied_at = (
        seen.monitor.alarm_since,
        seen.monitor.looked_at,
        seen.row.copied_at,
    )
    if since is None or looked_at is None or looked_at < max(copied_at, now() - alarms.EVERY):
        return None
    if now() - max(since, copied_at) < days * _DAY:
        return None
    return f"An alarm has held for {days} days, since {since:%Y-%m-%d %H:%M} UTC."


def copy(services: RenewalServices, seen: Renewing) -> None:
    """Copy labelled rows into a dataset."""
    rule, moment = RenewalSpec.model_validate(seen.row.rule), now()
    days = min(rule.max_age_days or seen.monitor.days, seen.monitor.days)
    with services.database.read() as session:
        version = store.version_of(session, seen.monitor, None)
        assert version is not None  # an alias has a version
        _, base = store.origin_of(session, version)
        manifest = None if base is None else base.manifest
        rows = store.labelled_rows(
            session,
            seen.monitor.id,
            since=moment - days * _DAY,
            until=moment,
            limit=rule.max_rows,
        )
    why = why_not(manifest)
    if why is not None or manifest is None:
        fail(services, seen, f"Labelled rows cannot be added: {why}.")
        return
    parsed = labelled_tasks(services.monitoring, seen, rows, manifest)
    if not parsed.tasks:
        fail(services, seen, f"None of {len(rows)} labelled rows has all values of the model.")
        return
    try:
        with stepping(services.database, seen) as (session, renewing):
            row = renewing.row
            assert base is not None  # it has a manifest
            row.rows_id, row.dataset_id = (
                store_rows(services, session, renewing, parsed).id,
                base.id,
            )
            row.state, row.copied_at = "combining", moment
    except _BROKEN as error:
        fail(services, seen, f"Labelled rows cannot be stored: {_detail(error)}")


def combine(services: RenewalServices, seen: Renewing) -> None:
    """Combine the copied rows with the dataset of the model."""
    row = seen.row
    if row.combined_id is None:
        with services.database.read() as session:
            kept = kept_rows(session, row)
        sources = [
            Selection(dataset_id=row.dataset_id, row_numbers=kept),
            Selection(dataset_id=str(row.rows_id)),
        ]
        combination = Combination(name=name_of(seen), sources=sources)
        try:  # without a key: the same sources with this name are the same dataset
            created, is_new = create_combined(services.datasets, seen.owner, combination, None)
        except Problem as error:
            fail(services, seen, f"Datasets cannot be combined: {_detail(error)}")
            return
        with stepping(services.database, seen) as (_, renewing):
            renewing.row.combined_id = created.id
        if is_new:
            services.datasets.ingester.submit(created.id)
        return
    with services.database.read() as session:
        dataset = session.get(DatasetRow, row.combined_id)
    state = DELETED if dataset is None else dataset.state
    if state in UNFINISHED_DATASETS:
        services.datasets.ingester.recover()  # of a process that has died
        if now() - row.updated_at > _COMBINE_TIMEOUT:
            fail(services, seen, "The datasets were not combined within an hour.")
    elif state == DatasetState.READY:
        _train(services, seen)
    else:
        issues = [] if dataset is None else dataset.issues
        detail = issues[0]["detail"] if issues else "the dataset was deleted"
        fail(services, seen, f"Datasets cannot be combined: {detail}")


def _train(services: RenewalServices, seen: Renewing) -> None:
    """Repeat the job of the champion on the combined dataset."""
    key = f"renewal-{seen.row.rows_id}-job"
    try:
        with stepping(services.database, seen) as (session, renewing):
            row = renewing.row
            champion = store.version_of(session, renewing.monitor, None)
            assert champion is not None  # an alias has a version
            spec = repeated(
                session.get_one(JobRow, champion.job_id), RepeatSpec(dataset_id=row.combined_id)
            )
            origin = Origin(seen.owner, key, fingerprint("renewal", key), None)
            job = submit(session, spec, origin, settings=services.datasets.settings)
            session.get_one(JobRow, job.id).is_challenger = True
            row.state, row.job_id, row.champion = "training", job.id, champion.version
    except _BROKEN as error:
        if isinstance(error, Problem) and error.code == "queue-full":
            return  # the next turn tries again
        fail(services, seen, f"The training cannot be submitted: {_detail(error)}")


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
    with stepping(services.database, seen) as (session, renewing):
        row = renewing.row
        _drop_copies(session, row, keeps_manifest=True)
        row.challenger, row.trial_at = number, now()
        row.n_trials = _count_trial(renewing.monitor, row.champion)
        row.trial = {"usual": _usual(services, session, renewing), "days": []}
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


def _usual(services: RenewalServices, session: Session, renewing: Renewing) -> dict[str, float]:
    """Return usual losses of the champion; where it has few rows, of all versions before."""
    if is_rate(services, renewing):
        return {}
    row, known = renewing.row, list[Any]()
    since = row.copied_at - renewing.monitor.days * _DAY
    for version in (row.champion, None):
        if len(known) < MIN_ROWS:
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
            for day in days_to_weigh(row, rule, now()):
                rows = store.paired_rows(session, seen, day, day + _DAY)
                weighed = weighed_day(rows, day, usual, is_rate=losses_are_rates)
                new += [] if weighed is None else [weighed]
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


def fail(services: RenewalServices, seen: Renewing, reason: str) -> None:
    """End a training that has failed; the renewal waits until its rule asks for the next one."""
    with stepping(services.database, seen) as (session, renewing):
        row = renewing.row
        row.state, row.next_state, row.copied_at = "clearing", "waiting", now()
        note(session, renewing, "renewal.failed", reason)


def end(services: RenewalServices, seen: Renewing, reason: str) -> None:
    """End a trial without a promotion."""
    with stepping(services.database, seen) as (session, renewing):
        _end(session, renewing, reason)


def _end(session: Session, renewing: Renewing, reason: str) -> None:
    renewing.row.state, renewing.row.trial = "waiting", None
    note(session, renewing, "renewal.ended", reason)


def abandon(services: RenewalServices, listed: Listed) -> None:
    """End a renewal whose monitor has ended."""
    with services.database.write() as session:
        found = session.get(RenewalRow, listed.monitor_id, with_for_update=True)
        if found is not None and (found.state != "clearing" or found.next_state is not None):
            found.state, found.next_state = "clearing", None
            store.touch(found)
    if found is not None:
        clear(services, found)


def clear(services: RenewalServices, row: RenewalRow | Listed) -> None:
    """Stop the training, delete what it has made, and go on to the next state, if any."""
    with services.database.write() as session:
        job = None if row.job_id is None else session.get(JobRow, row.job_id)
        if job is not None:
            alias_store.lock_model(session, job.owner, job.model_name)
        found = session.get(RenewalRow, row.monitor_id, with_for_update=True)
        if found is None or found.step != row.step:
            return
        if found.rows_id is not None and job is not None and JobState(job.state) not in FINAL:
            job_store.request_cancel(session, job)
            return
        if found.rows_id is not None and job is not None:
            store.delete_unused_version(session, job)
        if not _drop_copies(session, found, keeps_manifest=False):
            return
        if found.next_state is None:
            session.delete(found)
            return
        store.touch(found)
        found.state, found.next_state, found.job_id = found.next_state, None, None
        found.attempt += found.state == "copying"


def _drop_copies(session: Session, row: RenewalRow, *, keeps_manifest: bool) -> bool:
    """Delete the copies of rows; return whether none is left, as while one is being written."""
    copies = store.copies_of_rows(session, row)
    if any(dataset.state in UNFINISHED_DATASETS for dataset in copies):
        return False
    for dataset in copies:
        is_used = keeps_manifest or bool(dataset_store.needed_by(session, dataset.id))
        dataset_store.delete(session, dataset, keeps_manifest=is_used)
    row.rows_id = row.combined_id = None
    return True


def _detail(error: Exception) -> str:
    return str(error.detail) if isinstance(error, Problem) else str(error)
