"""The HTTP route of feedback: the targets of rows, when they are known."""

from collections.abc import Collection
from typing import Final

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool

from service.datasets import store as dataset_store
from service.errors.problems import Problem
from service.errors.validation import entry_at
from service.http.bodies import JSON, ContentType, media_type_of, parse_json
from service.http.documentation import JSON_BODY, file_body, problems
from service.http.requests import StrictRequest
from service.http.routing import Owner, Record, secured
from service.inference.call import Body, raise_invalid_request
from service.inference.encoding import decompress, unpack
from service.inference.formats import FORMATS, REQUEST_READERS
from service.models.alias_routes import AliasName
from service.models.routes import Name
from service.models.store import ALIAS_SEPARATOR, ServableVersion
from service.monitoring.context import Context, MonitorServices
from service.monitoring.feedback import classes_of, store_feedback
from service.monitoring.feedback_table import TARGET, FeedbackTable, read_dataset, read_feedback
from service.monitoring.routes import PATH, existing_monitor
from service.monitoring.schemas import Feedback
from service.storage.tables import DatasetRow

router = APIRouter(
    prefix="/v1/models/{name}/aliases",
    tags=["monitors"],
    route_class=secured("infer", is_audited=True),
)
#: A larger body has rows, not the id of a dataset.
_MAX_OBJECT_BYTES: Final = 1000


@router.post(
    f"{PATH}/feedback",
    summary="Send the targets of rows",
    responses=problems(
        *JSON_BODY,
        "malformed-body",
        "not-found",
        "invalid-data",
        "too-many-rows",
        "quota-exceeded",
        "wrong-state",
    ),
    openapi_extra=file_body(
        "Rows with the columns `row_id` and `target` (or its name in the training table), in a "
        'format of inference requests; or the JSON object `{"dataset_id": ...}`. Rows that were '
        "never predicted have the columns of the model and their task, too, and are predicted now. "
        "Without `row_id`, all rows are such; ids are made of their other cells, so that a row "
        "that is sent again counts once.",
        (*FORMATS, *REQUEST_READERS),
        json_schema="InferenceRequest",
    ),
)
async def send_feedback(
    name: Name,
    alias: AliasName,
    request: StrictRequest,
    services: Context,
    *,
    owner: Owner,
    record: Record,
    content_type: ContentType = None,
) -> Feedback:
    """Store targets when they are known: late, again, and corrected ones are normal."""
    media_type = media_type_of(request, content_type)
    settings = services.inference.settings
    body = await request.read(settings.max_body_bytes)
    coding = request.plain_headers.get("content-encoding", "")

    def store() -> Feedback:
        model_name, monitor = existing_monitor(services, owner, name, alias)
        aliased = f"{model_name}{ALIAS_SEPARATOR}{alias}"
        served = services.inference.resolver.find(owner, aliased, None)
        rows = unpack(decompress(body, coding, settings), settings)
        table = _read(services, owner, served, rows, media_type)
        return store_feedback(
            services,
            monitor,
            served,
            table,
            owner=owner,
            record=lambda session: record(session, 200),
        )

    return await run_in_threadpool(store)


def _read(
    services: MonitorServices, owner: str, served: ServableVersion, body: Body, media_type: str
) -> FeedbackTable:
    classes = classes_of(services.inference.models.get(served))
    dataset_id = _dataset_id(body, media_type)
    if dataset_id is not None:
        return _of_dataset(services, owner, dataset_id, classes)
    return read_feedback(
        body,
        media_type,
        services.inference.inputs.task_source(served, None),
        target_name=_target_name(services, served),
        classes=classes,
    )


def _dataset_id(body: Body, media_type: str) -> str | None:
    """Return the id in a JSON object that has nothing else; None for rows."""
    if media_type != JSON or len(body) > _MAX_OBJECT_BYTES:
        return None
    document = parse_json(body)
    if not isinstance(document, dict) or document.keys() != {"dataset_id"}:
        return None
    if not isinstance(document["dataset_id"], str):
        raise_invalid_request("/dataset_id", "expected the id of a dataset as a string")
    return document["dataset_id"]


def _target_name(services: MonitorServices, served: ServableVersion) -> str:
    """Return the name of the target in the training table."""
    with services.inference.database.read() as session:
        row = session.get(DatasetRow, served.dataset_id)
    given = (row.options if row is not None else {}).get("target_column")
    name = given[0] if isinstance(given, list) and given else given
    return name if isinstance(name, str) else TARGET


def _of_dataset(
    services: MonitorServices, owner: str, dataset_id: str, classes: Collection[str]
) -> FeedbackTable:
    with services.inference.database.read() as session:
        row = dataset_store.get(session, dataset_id, owner=owner)
    if row is None or row.content_blob_id is None or row.manifest is None:
        detail = f"there is no dataset '{dataset_id}' that is ready"
        raise Problem("not-found", detail, errors=[entry_at("/dataset_id", detail)])
    path = services.models.blobs.path(row.content_blob_id, str(row.content_sha256))
    limit = services.inference.settings.max_inference_rows
    return read_dataset(path, row.manifest, dataset_id, classes=classes, max_rows=limit)
