"""The end of trainings: copies of rows and unused versions are deleted."""

from sqlalchemy.orm import Session

from service.datasets import store as dataset_store
from service.jobs.queue import store as job_store
from service.models import alias_store
from service.renewal import store
from service.renewal.context import RenewalServices
from service.renewal.store import Listed, Renewing, note, stepping
from service.storage.database import now
from service.storage.dataset_states import UNFINISHED_DATASETS
from service.storage.job_states import FINAL, JobState
from service.storage.tables import JobRow, RenewalRow


def fail(services: RenewalServices, seen: Renewing, reason: str) -> None:
    """End a training that has failed; the renewal waits until its rule asks for the next one."""
    with stepping(services.database, seen) as (session, renewing):
        row = renewing.row
        row.state, row.next_state, row.copied_at = "clearing", "waiting", now()
        note(session, renewing, "renewal.failed", reason)


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
        if not drop_copies(session, found, keeps_manifest=False):
            return
        if found.next_state is None:
            session.delete(found)
            return
        store.touch(found)
        found.state, found.next_state, found.job_id = found.next_state, None, None
        found.attempt += found.state == "copying"


def drop_copies(session: Session, row: RenewalRow, *, keeps_manifest: bool) -> bool:
    """Delete the copies of rows; return whether none is left, as while one is being written."""
    copies = store.copies_of_rows(session, row)
    if any(dataset.state in UNFINISHED_DATASETS for dataset in copies):
        return False
    for dataset in copies:
        is_used = keeps_manifest or bool(dataset_store.needed_by(session, dataset.id))
        dataset_store.delete(session, dataset, keeps_manifest=is_used)
    row.rows_id = row.combined_id = None
    return True
