"""Creation of a dataset from stored datasets, without another upload."""

from collections.abc import Sequence
from typing import Any, Final

from service.access.quotas import check_upload
from service.datasets import store
from service.datasets.context import DatasetServices
from service.datasets.selection import Combination, Source
from service.errors.problems import Problem
from service.http.idempotency import find_created, fingerprint, remember_created
from service.storage.dataset_states import DatasetState
from service.storage.tables import DatasetRow

MEDIA_TYPE: Final = "application/vnd.sibling.combination"


def create_combined(
    services: DatasetServices, owner: str, combination: Combination, key: str | None
) -> tuple[DatasetRow, bool]:
    """Create the database row of a combined dataset; return the row, and whether it is new.

    Parameters
    ----------
    key
        Idempotency key of the request.

    Raises
    ------
    Problem
        A source does not exist or is not ready, or a quota is exceeded.
    """
    request_hash = fingerprint("POST /v1/datasets:combine", combination.model_dump_json())
    with services.database.write() as session:
        created = find_created(session, owner, key, request_hash)
        if created is not None:
            row = store.get(session, created, owner=owner)
            if row is not None:
                return row, False
        sources, rows = [], []
        for i, selection in enumerate(combination.sources):
            source_row = store.get(session, selection.dataset_id, owner=owner)
            location = {"pointer": f"/sources/{i}/dataset_id"}
            if source_row is None:
                detail = store.describe_missing(selection.dataset_id)
                raise Problem("not-found", detail, errors=[_error("not-found", detail, location)])
            if source_row.content_sha256 is None or source_row.state != DatasetState.READY:
                detail = store.describe_unready(source_row)
                raise Problem(
                    "wrong-state", detail, errors=[_error("wrong-state", detail, location)]
                )
            rows.append(source_row)
            sources.append(
                Source(
                    **selection.model_dump(exclude={"rows"}),
                    rows=selection.rows,
                    name=source_row.name,
                    content_sha256=source_row.content_sha256,
                )
            )
        sources_json = [source.model_dump(mode="json", exclude_none=True) for source in sources]
        parts = [source.model_dump_json() for source in sources]
        same = fingerprint(MEDIA_TYPE, *parts, combination.name)
        row = store.find_same(session, owner, same)
        is_new = row is None
        if row is None:
            check_upload(session, owner, services.settings, size_bytes=1)
            options = _common_options(rows)
            new = store.NewDataset(owner, combination.name, MEDIA_TYPE, options, same, sources_json)
            row = store.create(session, new, None)
        if created is None:
            remember_created(session, owner, key, request_hash, row.id)
    return row, is_new


def _common_options(rows: Sequence[DatasetRow]) -> dict[str, Any]:
    """Return the names of the columns of tasks and targets, as far as all sources have the same."""
    first = rows[0].options
    return {
        name: first[name]
        for name in ("task_column", "target_column")
        if first.get(name) and all(row.options.get(name) == first[name] for row in rows)
    }


def _error(code: str, detail: str, location: dict[str, str]) -> dict[str, str]:
    return {"code": code, "detail": detail, **location}
