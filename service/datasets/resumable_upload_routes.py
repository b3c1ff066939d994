"""HTTP routes of resumable uploads: the tus protocol 1.0.0 (https://tus.io/protocols/resumable-upload).

Its extensions creation, expiration and termination are supported.
"""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from service.datasets import resumable_upload_store, resumable_uploads
from service.datasets.context import Context, DatasetServices
from service.datasets.creation_routes import UploadQuery
from service.datasets.formats.options import ReadOptions
from service.datasets.resumable_uploads import NewUpload, UploadState
from service.datasets.upload import format_of
from service.errors.problems import Problem
from service.http.bodies import OCTETS
from service.http.documentation import file_body, problems
from service.http.paging import Page, Paging, page
from service.http.responses import json_response
from service.http.routing import Owner, StrictRoute

VERSION: Final = "1.0.0"
EXTENSIONS: Final = "creation,expiration,termination"
#: Methods that a POST request can name in X-HTTP-Method-Override.
_OVERRIDING: Final = ("PATCH", "DELETE")
#: Media types accepted for PATCH: the type of tus, and the generic type of binary data.
PART_TYPES: Final = ("application/offset+octet-stream", OCTETS)
_MAX_METADATA: Final = 8_000
_MAX_TAG: Final = 200
_SHA256: Final = re.compile("[0-9a-f]{64}")


def _check_version(
    tus_resumable: Annotated[
        str | None, Header(max_length=20, description="Version of the tus protocol: 1.0.0.")
    ] = None,
) -> None:
    """Raise a problem for another version of the protocol."""
    if tus_resumable not in (None, VERSION):
        detail = f"version '{tus_resumable}' of the protocol is not supported; use {VERSION}"
        raise Problem("unsupported-version", detail, headers={"Tus-Version": VERSION})


class _TusRoute(StrictRoute):
    """A route whose responses, including errors, carry the version of the protocol."""

    needed = ("datasets:write", "datasets:read")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the route matches, with the method that a POST request names instead."""
        method = _overriding_method(scope)
        if method is None:
            return super().matches(scope)
        match, child_scope = super().matches({**scope, "method": method})
        return match, {**child_scope, "method": method}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""

        async def send_with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                version = (b"tus-resumable", VERSION.encode())
                message = {**message, "headers": [*message["headers"], version]}
            await send(message)

        try:
            await super().handle(scope, receive, send_with_version)
        except HTTPException as error:  # no route has the method
            headers = {**(error.headers or {}), "Tus-Resumable": VERSION}
            raise HTTPException(error.status_code, error.detail, headers) from None


def _overriding_method(scope: Scope) -> str | None:
    """Return the method in X-HTTP-Method-Override, for clients that cannot send it themselves."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    header = next((v for name, v in scope["headers"] if name == b"x-http-method-override"), b"")
    method = header.decode("latin-1").strip().upper()
    return method if method in _OVERRIDING else None


def _refuse_extensions(
    upload_concat: Annotated[str | None, Header(include_in_schema=False)] = None,
    upload_defer_length: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> None:
    """Raise a problem for extensions of the protocol that would make another upload."""
    for name, value, what in (
        ("Upload-Concat", upload_concat, "uploads cannot be concatenated; send the whole file"),
        ("Upload-Defer-Length", upload_defer_length, "send the size of the file, Upload-Length"),
    ):
        if value is not None:
            detail = f"{name}: {what}. Supported extensions are {EXTENSIONS}"
            entry = {"parameter": f"header:{name.lower()}", "code": "unsupported", "detail": detail}
            raise Problem("invalid-request", detail, errors=[entry])


router = APIRouter(
    prefix="/v1/uploads",
    tags=["datasets"],
    route_class=_TusRoute,
    dependencies=[Depends(_check_version)],
)

UploadId = Annotated[str, Path(description="Id of the upload.")]


class Upload(BaseModel):
    """A resumable upload."""

    id: str = Field(description="Id of the upload.")
    name: str = Field(description="Name of its dataset.")
    media_type: str = Field(description="Media type of the file.")
    options: dict[str, Any] = Field(description="Options of the upload.")
    tag: str | None = Field(description="Text by which the client recognises it.")
    length: int = Field(description="Size of the file in bytes.")
    offset: int = Field(description="Number of bytes received.")
    dataset_id: str | None = Field(
        description="Id of the dataset, once all bytes have been received."
    )
    expires_at: datetime | None = Field(
        description="Time at which it is deleted if it receives no more bytes; null for never."
    )
    created_at: datetime = Field(description="Time of creation.")

    @classmethod
    def of(cls, state: UploadState, services: DatasetServices) -> "Upload":
        """Return the schema of an upload."""
        row = state.row
        return cls(
            id=row.id,
            name=row.name,
            media_type=row.media_type,
            options=row.options,
            tag=row.tag,
            length=row.length,
            offset=state.offset,
            dataset_id=row.dataset_id,
            expires_at=_expiry(state, services),
            created_at=row.created_at,
        )


@router.options("", include_in_schema=False)
async def describe_protocol(services: Context) -> Response:
    """Return the supported tus version and extensions, and the maximum upload size."""
    headers = {
        "Allow": "GET, HEAD, OPTIONS, POST",
        "Tus-Version": VERSION,
        "Tus-Extension": EXTENSIONS,
        "Tus-Max-Size": str(services.settings.max_upload_bytes),
    }
    return Response(status_code=204, headers=headers)


@router.post(
    "",
    summary="Create a resumable upload",
    dependencies=[Depends(_refuse_extensions)],
    status_code=201,
    response_model=Upload,
    responses=problems(
        "body-too-large",
        "unsupported-media-type",
        "invalid-request",
        "invalid-dataset",
        "unsupported-version",
        "quota-exceeded",
    ),
)
async def create_upload(
    services: Context,
    owner: Owner,
    query: Annotated[UploadQuery, Query()],
    *,
    upload_length: Annotated[int, Header(ge=1, lt=2**63, description="Size of the file in bytes.")],
    upload_metadata: Annotated[
        str,
        Header(
            max_length=_MAX_METADATA,
            description="Comma-separated pairs of a key and its base64-encoded value: `filetype`, "
            "the media type of the file, and optionally `tag`, a text by which the client "
            "recognises the upload, and `sha256`, the SHA-256 of the file in hexadecimal digits: "
            "an upload whose bytes have another hash is deleted.",
        ),
    ],
) -> Response:
    """Create a resumable upload (tus protocol 1.0.0).

    Send the bytes with PATCH to the URL in the `Location` header, in parts of any size. The dataset
    is created after the last byte.
    """
    metadata = _read_metadata(upload_metadata)
    if "filetype" not in metadata:
        raise _invalid_metadata("the key filetype with the media type of the file is missing")
    tag = metadata.get("tag")
    if tag is not None and (len(tag) > _MAX_TAG or not tag.isprintable()):
        raise _invalid_metadata(f"tag is not a text of at most {_MAX_TAG} printable characters")
    sha256 = metadata.get("sha256")
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise _invalid_metadata("sha256 is not 64 hexadecimal digits in lower case")
    options = ReadOptions.model_validate(query.model_dump(exclude={"name"}))
    format_ = format_of(metadata["filetype"])
    new = NewUpload(owner, query.name, options, format_, upload_length, tag, sha256)
    state = await run_in_threadpool(resumable_uploads.create, services, new)
    return _response(state, services, status=201, Location=f"/v1/uploads/{state.row.id}")


@router.get(
    "",
    summary="List resumable uploads",
    responses=problems("invalid-page-token", "invalid-request", "unsupported-version"),
)
def list_uploads(services: Context, owner: Owner, query: Paging) -> Page[Upload]:
    """List uploads, newest first."""
    with services.database.read() as session:
        rows = resumable_upload_store.list_page(
            session, owner, after=query.after(), limit=query.page_size + 1
        )
        states = [resumable_uploads.state_of(session, row) for row in rows]
    uploads = [Upload.of(state, services) for state in states]
    return page(uploads, query, key=lambda upload: upload.id)


@router.get(
    "/{upload_id}",
    summary="Read a resumable upload",
    response_model=Upload,
    responses=problems("not-found", "checksum-mismatch", "unsupported-version", "invalid-request"),
)
def get_upload(upload_id: UploadId, services: Context, owner: Owner) -> Response:
    """Return an upload. HEAD returns `Upload-Offset`, the offset to continue from."""
    return _response(resumable_uploads.read(services, upload_id, owner), services, status=200)


@router.patch(
    "/{upload_id}",
    summary="Continue a resumable upload",
    status_code=204,
    openapi_extra=file_body(f"The next bytes of the file, also as `{PART_TYPES[0]}`."),
    responses=problems(
        "not-found",
        "offset-mismatch",
        "checksum-mismatch",
        "body-too-large",
        "unsupported-media-type",
        "unsupported-version",
        "invalid-request",
    ),
)
async def continue_upload(
    upload_id: UploadId,
    request: Request,
    services: Context,
    owner: Owner,
    *,
    upload_offset: Annotated[
        int, Header(ge=0, lt=2**63, description="Number of bytes received so far.")
    ],
) -> Response:
    """Add the next bytes to an upload. Bytes received before an interruption are kept."""
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() not in PART_TYPES:
        detail = f"'{content_type[:100]}' is not supported; send the bytes as {PART_TYPES[0]}"
        raise Problem("unsupported-media-type", detail)
    state = await resumable_uploads.append(request, services, upload_id, owner, upload_offset)
    return Response(status_code=204, headers=_headers(state, services))


@router.delete(
    "/{upload_id}",
    summary="Delete a resumable upload",
    status_code=204,
    responses=problems("not-found", "unsupported-version", "invalid-request"),
)
def delete_upload(upload_id: UploadId, services: Context, owner: Owner) -> Response:
    """Delete an upload; the dataset that was created from it stays."""
    resumable_uploads.delete(services, upload_id, owner)
    return Response(status_code=204)


def _response(
    state: UploadState, services: DatasetServices, *, status: int, **headers: str
) -> Response:
    response = json_response(Upload.of(state, services), status=status, **headers)
    response.headers.update(_headers(state, services))
    return response


def _headers(state: UploadState, services: DatasetServices) -> dict[str, str]:
    headers = {
        "Upload-Offset": str(state.offset),
        "Upload-Length": str(state.row.length),
        "Cache-Control": "no-store",
    }
    expiry = _expiry(state, services)
    return (
        headers
        if expiry is None
        else headers | {"Upload-Expires": format_datetime(expiry, usegmt=True)}
    )


def _expiry(state: UploadState, services: DatasetServices) -> datetime | None:
    days = services.settings.retention_uploads_days
    return state.changed_at.astimezone(UTC) + timedelta(days=days) if days else None


def _read_metadata(header: str) -> dict[str, str]:
    """Return the pairs of Upload-Metadata."""
    metadata: dict[str, str] = {}
    for pair in header.split(","):
        key, _, value = pair.strip().partition(" ")
        if not key or key in metadata:
            raise _invalid_metadata(f"{pair[:40]!r} has no key, or repeats the key of another pair")
        try:
            metadata[key] = base64.b64decode(value.strip().encode(), validate=True).decode()
        except (binascii.Error, ValueError):
            raise _invalid_metadata(f"the value of {key[:40]!r} is not text in base64") from None
    return metadata


def _invalid_metadata(detail: str) -> Problem:
    entry = {"parameter": "header:upload-metadata", "code": "invalid", "detail": detail}
    return Problem("invalid-request", f"Upload-Metadata: {detail}", errors=[entry])
