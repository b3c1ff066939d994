"""Quotas of an owner on stored bytes, datasets and model versions.

A check locks the owner's quotas until its transaction ends, so that two uploads at the same time
cannot both take the last place. The size of parsed data, and of the results of a job, is checked
again when it is known: see ``service.access.stored_bytes``.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.access import store
from service.access.stored_bytes import lock_quotas, stored_bytes
from service.errors.problems import Problem
from service.settings import Settings
from service.storage.dataset_states import DELETED
from service.storage.job_states import UNFINISHED
from service.storage.tables import DatasetRow, JobRow, ModelRow, UploadRow, VersionRow


def check_upload(session: Session, owner: str, settings: Settings, *, size_bytes: int) -> None:
    """Raise a Problem unless the owner may store one more dataset of a size.

    Unfinished jobs whose outputs become a dataset count.
    """
    lock_quotas(session, owner)
    limit = settings.max_datasets
    if limit:
        used = count_datasets(session, owner) + count_uploads(session, owner)
        makes_dataset = JobRow.plan["makes_dataset"].as_boolean().is_(True)
        unfinished = 0 if used >= limit else _count_inferences(session, owner, makes_dataset)
        if used + unfinished >= limit:
            what = f"datasets and {unfinished} unfinished jobs that make further ones"
            remedy = "delete datasets, or unfinished uploads, that you no longer need"
            raise _exceeded(what if unfinished else "datasets", used, limit, remedy)
    check_stored_bytes(session, owner, settings, more_bytes=size_bytes)


def check_training(session: Session, owner: str, settings: Settings) -> None:
    """Raise a Problem unless the owner may train one more model.

    Unfinished jobs count, since each of them may make a model version.
    """
    lock_quotas(session, owner)
    limit = settings.max_models
    if limit:
        used = count_models(session, owner)
        unfinished = 0 if used >= limit else count_unfinished_trainings(session, owner)
        if used + unfinished >= limit:
            what = f"model versions and {unfinished} unfinished jobs that train further ones"
            remedy = "delete model versions that you no longer need"
            raise _exceeded(what if unfinished else "model versions", used, limit, remedy)
    check_stored_bytes(session, owner, settings, more_bytes=1)


def check_stored_bytes(
    session: Session, owner: str, settings: Settings, *, more_bytes: int
) -> None:
    """Raise a Problem unless the owner may store some more bytes."""
    limit = settings.max_stored_bytes
    if not limit:
        return
    used = stored_bytes(session, owner)
    if used + more_bytes > limit:
        remedy = "delete datasets, models, outputs and uploads that you no longer need"
        what = (
            "stored bytes" if more_bytes <= 1 else f"stored bytes, and this needs {more_bytes} more"
        )
        raise _exceeded(what, used, limit, remedy)


def use_of(session: Session, owner: str, settings: Settings) -> dict[str, Any]:
    """Return what an owner has, and the limits: used and maximum, which is None without one."""
    used = {
        "datasets": (count_datasets(session, owner) + count_uploads(session, owner)),
        "models": count_models(session, owner),
        "stored_bytes": stored_bytes(session, owner),
    }
    limits = {name: getattr(settings, f"max_{name}") or None for name in used}
    return {
        "n_active_keys": store.count_active(session, owner),
        "n_unfinished_jobs": count_unfinished(session, owner),
        **{name: {"used": used[name], "maximum": limits[name]} for name in used},
    }


def count_unfinished(session: Session, owner: str) -> int:
    """Return the number of unfinished jobs of an owner, without child jobs."""
    query = sa.select(sa.func.count()).select_from(JobRow).where(*_are_unfinished(owner))
    return session.scalar(query) or 0


def count_datasets(session: Session, owner: str) -> int:
    """Return the number of datasets of an owner."""
    query = sa.select(sa.func.count()).where(DatasetRow.owner == owner, DatasetRow.state != DELETED)
    return session.scalar(query) or 0


def count_uploads(session: Session, owner: str) -> int:
    """Return the number of resumable uploads of an owner that are not complete."""
    query = sa.select(sa.func.count()).select_from(UploadRow)
    unfinished = UploadRow.owner == owner, UploadRow.dataset_id.is_(None)
    return session.scalar(query.where(*unfinished)) or 0


def count_models(session: Session, owner: str) -> int:
    """Return the number of model versions of an owner."""
    query = (
        sa.select(sa.func.count())
        .select_from(VersionRow)
        .join(ModelRow, ModelRow.id == VersionRow.model_id)
        .where(ModelRow.owner == owner)
    )
    return session.scalar(query) or 0


def count_unfinished_trainings(session: Session, owner: str) -> int:
    """Return the number of unfinished jobs of an owner that will make a model version."""
    # an index answers the first query; the second reads only jobs that use a model
    return count_unfinished(session, owner) - _count_inferences(session, owner)


def _count_inferences(session: Session, owner: str, *such: sa.ColumnElement[bool]) -> int:
    """Return the number of unfinished inferences of an owner that meet conditions."""
    inferences = sa.select(sa.func.count()).where(
        *_are_unfinished(owner),
        JobRow.base_version_id.is_not(None),
        JobRow.plan["kind"].as_string() == "infer",
        *such,
    )
    return session.scalar(inferences) or 0


def _are_unfinished(owner: str) -> tuple[sa.ColumnElement[bool], ...]:
    return JobRow.owner == owner, JobRow.parent_id.is_(None), JobRow.state.in_(UNFINISHED)


def _exceeded(what: str, used: int, limit: int, remedy: str) -> Problem:
    detail = (
        f"you have {used} {what}; the maximum is {limit}: {remedy}, or ask the operator to raise it"
    )
    return Problem("quota-exceeded", detail)
