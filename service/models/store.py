"""SQL of models and their versions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session, defer

from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS
from service.models.names import split_method
from service.storage.blob_rows import release_blob
from service.storage.database import contains
from service.storage.job_states import UNFINISHED
from service.storage.ordered_pages import PageRequest, RowPage, created_between, fetch_page
from service.storage.tables import AliasRow, JobRow, ModelRow, MonitorRow, VersionRow

#: Maximum number of jobs, and of models, that a message names as users of a resource.
MAX_NAMED: Final = 5
#: Separates model and alias; model names cannot contain it.
ALIAS_SEPARATOR: Final = "@"
#: Lists do not show reports, which take long to parse.
_WITHOUT_REPORT: Final = defer(VersionRow.report, raiseload=True)
_ALIAS_OF_VERSION: Final = AliasRow.version_id == VersionRow.id


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """A version with the name of its model and its aliases.

    Parameters
    ----------
    expected
        Metric and expected score on new rows of an automatic choice.
    """

    name: str
    row: VersionRow
    aliases: tuple[str, ...]
    expected: tuple[str, float] | None = None


#: Columns by which models can be sorted; ids of versions sort by time of creation.
ORDERS: Final = {
    "name": ModelRow.name,
    "created_at": VersionRow.id,
    "algorithm": VersionRow.algorithm,
}


def list_models(
    session: Session,
    owner: str,
    wanted: PageRequest,
    *,
    algorithm: str | None = None,
    dataset_id: str | None = None,
    text: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[Sequence[NamedVersion], RowPage]:
    """Return a page of the latest version of each model.

    Parameters
    ----------
    algorithm, dataset_id
        Only models whose latest version has this algorithm, or was trained on this dataset.
    text
        Only models whose name contains this text.
    """
    # without the versions' long columns, of which only a page is read
    models = sa.select(VersionRow.id).join(ModelRow, VersionRow.model_id == ModelRow.id)
    models = models.where(ModelRow.owner == owner, VersionRow.version == _latest())
    if text is not None:
        models = models.where(contains(text, ModelRow.name))
    for column, value in ((VersionRow.algorithm, algorithm), (VersionRow.dataset_id, dataset_id)):
        if value is not None:
            models = models.where(column == value)
    models = created_between(models, VersionRow.created_at, since, until)
    found = fetch_page(session, models, ORDERS, VersionRow.id, wanted)
    ids = [version_id for (version_id,) in found.rows]
    query = _versions(owner).where(VersionRow.id.in_(ids)).options(_WITHOUT_REPORT)
    by_id = {named.row.id: named for named in _named(session, query)}
    return [by_id[version_id] for version_id in ids], found


def list_versions(
    session: Session, owner: str, name: str, *, below: int | None, limit: int
) -> Sequence[NamedVersion]:
    """Return the versions of a model, newest first, below the number ``below``.

    ``NAME@ALIAS`` has the versions of the model if it has this alias.
    """
    plain, is_aliased, alias = name.partition(ALIAS_SEPARATOR)
    query = _versions(owner).where(ModelRow.name == plain).order_by(VersionRow.version.desc())
    query = query.options(_WITHOUT_REPORT)
    if is_aliased:
        has_alias = (AliasRow.model_id == ModelRow.id) & (AliasRow.alias == alias)
        query = query.where(sa.exists().where(has_alias))
    if below is not None:
        query = query.where(VersionRow.version < below)
    return _named(session, query.limit(limit))


def get_version(
    session: Session, owner: str, name: str, version: int | None
) -> NamedVersion | None:
    """Return a version of a model: by its number, by the alias in ``NAME@ALIAS``, or the latest.

    With a number and an alias, both must match.
    """
    plain, is_aliased, alias = name.partition(ALIAS_SEPARATOR)
    query = _versions(owner).where(ModelRow.name == plain)
    if is_aliased:
        query = query.join(AliasRow, _ALIAS_OF_VERSION).where(AliasRow.alias == alias)
    if version is not None or not is_aliased:
        query = query.where(VersionRow.version == (_latest() if version is None else version))
    return next(iter(_named(session, query)), None)


def list_reserved(session: Session) -> Sequence[tuple[str, str]]:
    """Return owners and names of models that take over calls of another, of all owners.

    Models of earlier versions of the service may have such names, and unfinished jobs may create
    more of them.
    """
    jobs = sa.select(JobRow.owner, JobRow.model_name).where(JobRow.state.in_(UNFINISHED))
    models = sa.select(ModelRow.owner, ModelRow.name).where(
        sa.exists().where(VersionRow.model_id == ModelRow.id)
    )
    rows = session.execute(sa.union(models, jobs))
    return sorted((owner, name) for owner, name in rows if split_method(name)[1])


def find_importance(session: Session, version_id: str) -> dict[str, Any] | None:
    """Return the importance of the columns of a version; None if it has none."""
    return session.scalar(sa.select(VersionRow.importance).where(VersionRow.id == version_id))


class ActiveMonitor(NamedTuple):
    """A monitor that keeps rows of a version.

    Attributes
    ----------
    share
        Share of the rows that are kept.
    never_keep
        Columns whose values are not kept.
    """

    id: str
    share: float
    never_keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServableVersion:
    """Columns of a version that inference needs; reading whole rows takes longer."""

    name: str
    version: int
    id: str
    algorithm: str
    methods: list[str]
    dataset_id: str
    artifact_blob_id: str
    artifact_sha256: str
    artifact_bytes: int
    task_column: str = DEFAULT_TASK_COLUMN
    new_tasks: str = DEFAULT_NEW_TASKS
    monitors: tuple[ActiveMonitor, ...] = ()


def find_served(
    session: Session, owner: str, name: str, version: int | None
) -> ServableVersion | None:
    """Return the version that :func:`get_version` finds, with the columns for inference only."""
    plain, is_aliased, alias = name.partition(ALIAS_SEPARATOR)
    query = _ALIASED if is_aliased else _LATEST if version is None else _ONE
    params = {"owner": owner, "name": plain, "version": version, "alias": alias}
    row = session.execute(query, params).first()
    if row is None or (version is not None and row.version != version):
        return None
    monitors = session.execute(_MONITORS, {"version_id": row.id})
    active = tuple(ActiveMonitor(id_, share, tuple(names)) for id_, share, names in monitors)
    return replace(ServableVersion(*row), monitors=active)


def list_served(session: Session, owner: str) -> Sequence[ServableVersion]:
    """Return all versions of all models, sorted by name and number."""
    rows = session.execute(_served(owner).order_by(ModelRow.name, VersionRow.version))
    return [ServableVersion(*row) for row in rows]


def aliases_of(session: Session, version_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the aliases of each version, in alphabetical order."""
    return _aliases(session, AliasRow.version_id.in_(version_ids))


def aliases_of_owner(session: Session, owner: str) -> Mapping[str, Sequence[str]]:
    """Return the aliases of each version of an owner's models, in alphabetical order."""
    models = sa.select(ModelRow.id).where(ModelRow.owner == owner)
    return _aliases(session, AliasRow.model_id.in_(models))


def _aliases(session: Session, condition: sa.ColumnElement[bool]) -> Mapping[str, Sequence[str]]:
    by_version: defaultdict[str, list[str]] = defaultdict(list)
    query = sa.select(AliasRow.version_id, AliasRow.alias).where(condition).order_by(AliasRow.alias)
    for version_id, alias in session.execute(query):
        by_version[version_id].append(alias)
    return by_version


def version_numbers(session: Session, owner: str, name: str) -> Sequence[int]:
    """Return the numbers of the versions of a model."""
    query = (
        sa.select(VersionRow.version)
        .join(ModelRow, VersionRow.model_id == ModelRow.id)
        .where(ModelRow.owner == owner, ModelRow.name == name)
        .order_by(VersionRow.version)
    )
    return session.scalars(query).all()


def versions_of_jobs(session: Session, job_ids: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the versions that jobs made, by job."""
    query = sa.select(VersionRow.job_id, VersionRow.version).where(VersionRow.job_id.in_(job_ids))
    return dict(session.execute(query).all())


def applied_versions(session: Session, version_ids: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of versions that are not deleted, by what names them."""
    if not version_ids:
        return {}
    query = sa.select(VersionRow.id, VersionRow.version)
    wanted = query.where(VersionRow.id.in_(set(version_ids.values())))
    numbers = dict(session.execute(wanted).all())
    return {name: numbers[id_] for name, id_ in version_ids.items() if id_ in numbers}


def needed_by(session: Session, version: VersionRow) -> list[str]:
    """Return some unfinished jobs that use a version, and some models adapted from it."""
    jobs = session.execute(
        sa.select(JobRow.id, JobRow.model_name)
        .where(
            JobRow.owner
            == sa.select(ModelRow.owner).where(ModelRow.id == version.model_id).scalar_subquery(),
            JobRow.state.in_(UNFINISHED),
            JobRow.base_version_id == version.id,
        )
        .order_by(JobRow.id)
        .limit(MAX_NAMED + 1)
    ).all()
    later = session.execute(
        sa.select(ModelRow.name, VersionRow.version)
        .join(VersionRow, VersionRow.model_id == ModelRow.id)
        .where(VersionRow.base_id == version.id)
        .order_by(ModelRow.name, VersionRow.version)
        .limit(MAX_NAMED + 1)
    ).all()
    users = [
        *(f"model {name}, version {number}, adapted from it" for name, number in later),
        *(f"an unfinished job for {name} (job {job_id})" for job_id, name in jobs),
    ]
    return users if len(users) <= MAX_NAMED else [*users[:MAX_NAMED], "and more"]


def delete_version(session: Session, version: NamedVersion) -> None:
    """Delete a version, and its artifact unless another row references it."""
    session.execute(sa.delete(VersionRow).where(VersionRow.id == version.row.id))
    release_blob(session, version.row.artifact_blob_id)


def _versions(owner: str) -> sa.Select[str, VersionRow]:
    return (
        sa.select(ModelRow.name, VersionRow)
        .join(VersionRow, VersionRow.model_id == ModelRow.id)
        .where(ModelRow.owner == owner)
    )


def _served(owner: str | sa.BindParameter[str]) -> sa.Select[Any]:
    version = VersionRow
    return (
        sa.select(
            ModelRow.name,
            version.version,
            version.id,
            version.algorithm,
            version.methods,
            version.dataset_id,
            version.artifact_blob_id,
            version.artifact_sha256,
            version.artifact_bytes,
            version.task_column,
            version.new_tasks,
        )
        .join(version, version.model_id == ModelRow.id)
        .where(ModelRow.owner == owner)
    )


@cache
def _latest() -> sa.ColumnElement[int]:
    """Return the highest existing number, since the newest version may have been deleted.

    Challengers count only where no other version is left: who calls a model by its name alone gets
    proven versions.
    """
    other = sa.alias(VersionRow.__table__)
    highest = sa.select(sa.func.max(other.c.version)).where(other.c.model_id == ModelRow.id)
    proven = highest.where(other.c.is_challenger.is_(False))
    return sa.func.coalesce(*(q.correlate(ModelRow).scalar_subquery() for q in (proven, highest)))


def _named(session: Session, query: sa.Select[str, VersionRow]) -> Sequence[NamedVersion]:
    pairs = session.execute(query).all()
    ids = [row.id for _, row in pairs]
    aliases, expected = aliases_of(session, ids), _expected_scores(session, ids)
    return [
        NamedVersion(name, row, tuple(aliases[row.id]), expected.get(row.id)) for name, row in pairs
    ]


def _expected_scores(session: Session, ids: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Return metric and expected score of versions that were chosen automatically, by id."""
    metric, value = JobRow.result["metric"], JobRow.result["estimate", "value"]
    query = (
        sa.select(VersionRow.id, metric.as_string(), value.as_float().label("value"))
        .join(JobRow, JobRow.id == VersionRow.job_id)
        .where(VersionRow.id.in_(ids), value.as_float().is_not(None))
    )
    return {version_id: (name, score) for version_id, name, score in session.execute(query)}


# built once, since building a query takes longer than running it
_NAMED = _served(sa.bindparam("owner")).where(ModelRow.name == sa.bindparam("name"))
_LATEST = _NAMED.where(VersionRow.version == _latest())
_ONE = _NAMED.where(VersionRow.version == sa.bindparam("version"))
_ALIASED = _NAMED.join(AliasRow, _ALIAS_OF_VERSION).where(AliasRow.alias == sa.bindparam("alias"))
_MONITORS = (
    sa.select(MonitorRow.id, MonitorRow.share, MonitorRow.never_keep)
    .join(
        AliasRow, (AliasRow.model_id == MonitorRow.model_id) & (AliasRow.alias == MonitorRow.alias)
    )
    .where(AliasRow.version_id == sa.bindparam("version_id"), MonitorRow.share > 0)
)
