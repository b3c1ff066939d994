"""SQL of models and their versions."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.blobs import release_blob
from service.rows import ModelRow, VersionRow


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """A version together with the name it is published under."""

    name: str
    row: VersionRow


def list_models(
    session: Session, owner: str, *, after: str | None, limit: int
) -> Sequence[NamedVersion]:
    """Give the latest version of each model, by name, after the name ``after``."""
    query = _versions(owner).where(VersionRow.version == _latest()).order_by(ModelRow.name)
    if after is not None:
        query = query.where(ModelRow.name > after)
    return _named(session, query.limit(limit))


def list_versions(
    session: Session, owner: str, name: str, *, below: int | None, limit: int
) -> Sequence[NamedVersion]:
    """Give the versions of a model, newest first, below the number ``below``."""
    query = _versions(owner).where(ModelRow.name == name).order_by(VersionRow.version.desc())
    if below is not None:
        query = query.where(VersionRow.version < below)
    return _named(session, query.limit(limit))


def get_version(
    session: Session, owner: str, name: str, version: int | None
) -> NamedVersion | None:
    """Give a version of a model, the latest by default."""
    wanted = _latest() if version is None else version
    query = _versions(owner).where(ModelRow.name == name, VersionRow.version == wanted)
    return next(iter(_named(session, query)), None)


def version_of_job(session: Session, job_id: str) -> int | None:
    """Give the number of the version that a job made."""
    return versions_of_jobs(session, [job_id]).get(job_id)


def versions_of_jobs(session: Session, job_ids: Sequence[str]) -> dict[str, int]:
    """Give the numbers of the versions that jobs made, by job."""
    query = sa.select(VersionRow.job_id, VersionRow.version).where(VersionRow.job_id.in_(job_ids))
    return dict(session.execute(query).tuples().all())


def delete_version(session: Session, version: NamedVersion) -> None:
    """Delete a version, and its artifact unless another row has the same bytes."""
    session.execute(sa.delete(VersionRow).where(VersionRow.id == version.row.id))
    release_blob(session, version.row.artifact_blob_id)


def _versions(owner: str) -> sa.Select[str, VersionRow]:
    return (
        sa.select(ModelRow.name, VersionRow)
        .join(VersionRow, VersionRow.model_id == ModelRow.id)
        .where(ModelRow.owner == owner)
    )


def _latest() -> sa.ScalarSelect[int]:
    """Give the highest number that is still there: the newest may have been deleted."""
    other = sa.alias(VersionRow.__table__)
    return (
        sa.select(sa.func.max(other.c.version))
        .where(other.c.model_id == ModelRow.id)
        .correlate(ModelRow)
        .scalar_subquery()
    )


def _named(session: Session, query: sa.Select[str, VersionRow]) -> Sequence[NamedVersion]:
    return [NamedVersion(name, row) for name, row in session.execute(query)]
