"""The steps of a renewal from its rule to a training: each is one transaction."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from sqlalchemy.orm import Session

from algorithms.interface.errors import AlgorithmError
from service.access.stored_bytes import StoredBytesExceeded
from service.datasets.combine import create_combined
from service.datasets.manifest import feature_names_by_task
from service.datasets.selection import Combination, Selection
from service.errors.problems import Problem
from service.http.idempotency import fingerprint
from service.jobs.spec_schemas import RepeatSpec
from service.jobs.submission import Origin, repeated, spec_of, submit
from service.monitoring import alarms
from service.renewal import store
from service.renewal.clearing import fail
from service.renewal.context import RenewalServices
from service.renewal.copying import kept_rows, labelled_tasks, name_of, store_rows, why_not, written
from service.renewal.cron import Cron
from service.renewal.schemas import RenewalSpec
from service.renewal.store import Renewing, note, stepping
from service.storage.database import now
from service.storage.dataset_states import DELETED, UNFINISHED_DATASETS, DatasetState
from service.storage.tables import DatasetRow, JobRow, VersionRow

_DAY: Final = timedelta(days=1)
#: Time after which a dataset that is not combined is given up.
_COMBINE_TIMEOUT: Final = timedelta(hours=1)
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
        rows = "1 row has got its" if n_new == 1 else f"{n_new} rows have got their"
        why = f"{rows} target since the last training."
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
        # before the transaction, for which others wait
        with (
            written(services, parsed) as stored,
            stepping(services.database, seen) as (session, renewing),
        ):
            row = renewing.row
            assert base is not None  # it has a manifest
            row.dataset_id = base.id
            copied = store_rows(services, session, renewing, *stored, options=base.options)
            row.rows_id = copied.id
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
        if is_new:  # also if the step comes late, or the dataset would stay unread
            services.datasets.ingester.submit(created.id)
        with stepping(services.database, seen) as (_, renewing):
            renewing.row.combined_id = created.id
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


def _detail(error: Exception) -> str:
    return str(error.detail) if isinstance(error, Problem) else str(error)
