"""An app with only the routes of datasets; database, blobs and child processes are real."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from fastapi import FastAPI

from algorithms.interface.tasks import TaskSet
from service.access.authenticator import Authenticator
from service.datasets.canonical import read_tasks
from service.datasets.context import DatasetServices
from service.datasets.creation_routes import router as creation_routes
from service.datasets.formats.options import Limits
from service.datasets.ingestion.child import run
from service.datasets.ingestion.ingester import Ingester
from service.datasets.ingestion.supervision import IngestTask, ReaderProcess
from service.datasets.resumable_upload_routes import router as upload_routes
from service.datasets.routes import router
from service.errors.problems import install_handlers
from service.http.waiting import WaitingRequests
from service.settings import Settings
from service.storage.blobs import BlobStore
from service.storage.database import Database
from service.storage.tables import BlobChunkRow, BlobRow, DatasetRow, IdempotencyRow, UploadRow
from tests.written import written

CSV = "text/csv"
NPZ = "application/x-npz"
# limits of the child process, which have their own tests
MEMORY_BYTES, TIMEOUT_S = 2**30, 60


def npz(arrays: dict[str, Any]) -> bytes:
    """Return arrays as .npz bytes."""
    return written(np.savez, **arrays)


@dataclass(frozen=True)
class Reader:
    """Parser of uploads in this process, without server and database."""

    folder: Path
    limits: Limits

    def read(self, body: bytes, media_type: str = CSV, **options: Any) -> dict[str, Any]:
        """Return the result of the child: a manifest, or issues."""
        (self.folder / "upload").write_bytes(body)
        several = ("target_column", "ignore_column")
        listed = {k: [v] if k in several and isinstance(v, str) else v for k, v in options.items()}
        task = IngestTask(self.folder, media_type, listed, self.limits, MEMORY_BYTES, TIMEOUT_S)
        result = run(json.loads(json.dumps(task.to_json())))
        return cast("dict[str, Any]", json.loads(json.dumps(result, allow_nan=False)))

    def read_npz(self, arrays: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Parse arrays as .npz."""
        return self.read(npz(arrays), NPZ, **options)

    def tasks(self, result: dict[str, Any]) -> TaskSet:
        """Return the tasks of a valid upload as a training process loads them."""
        assert "issues" not in result, result
        return read_tasks(self.folder / "content", result["manifest"])

    @staticmethod
    def assert_rejected(result: dict[str, Any], code: str, *words: str, **place: Any) -> None:
        """Check code, words and location of the first issue."""
        first = result["issues"][0]
        assert first["code"] == code, first
        for word in words:
            assert word in first["detail"]
        assert {name: first.get(name) for name in place} == place


@dataclass(frozen=True)
class App:
    """An app with its services and its data directory."""

    api: FastAPI
    services: DatasetServices
    data_dir: Path

    def send(self, method: str, url: str, **parts: Any) -> httpx.Response:
        """Send a request through the whole stack of the app."""

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(self.api)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                return await http.request(method, url, **parts)

        return anyio.run(go)

    def upload(
        self,
        body: Any,
        media_type: str = CSV,
        *,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> httpx.Response:
        """Upload a body."""
        sent = {"content-type": media_type, **(headers or {})}
        return self.send(
            "POST", "/v1/datasets", params={"name": "d", **query}, content=body, headers=sent
        )

    def upload_npz(self, arrays: dict[str, Any], **query: Any) -> httpx.Response:
        """Upload arrays as .npz."""
        return self.upload(npz(arrays), NPZ, **query)

    def tasks(self, dataset_id: str) -> TaskSet:
        """Return the tasks of a dataset as a training process loads them."""
        with self.services.database.read() as session:
            row = session.get_one(DatasetRow, dataset_id)
        path = self.services.blobs.path(row.content_blob_id, row.content_sha256)
        return read_tasks(path, row.manifest)

    def assert_rejected(
        self, response: httpx.Response, code: str, *words: str, **place: Any
    ) -> dict[str, Any]:
        """Check status, code, words, location, and that nothing is left; return the first issue."""
        assert response.status_code == 422, response.text
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json()
        assert problem["code"] == "invalid-dataset"
        first = cast("dict[str, Any]", problem["errors"][0])
        assert first["code"] == code, first
        for word in words:
            assert word in first["detail"]
        assert {name: first.get(name) for name in place} == place
        assert self.left_behind() == {}
        return first

    def left_behind(self) -> dict[str, Any]:
        """Return all that an upload can leave behind: rows, chunks and files."""
        with self.services.database.read() as session:
            left: dict[str, Any] = {
                row.__tablename__: session.scalar(sa.select(sa.func.count()).select_from(row))
                for row in (DatasetRow, UploadRow, BlobRow, BlobChunkRow, IdempotencyRow)
            }
        for folder in ("ingest", "cache"):
            left[folder] = [str(p) for p in (self.data_dir / folder).rglob("*")]
        return {name: what for name, what in left.items() if what}


@pytest.fixture
def make_reader(tmp_path: Path) -> Callable[..., Reader]:
    """Return a function that creates a parser with given limits."""
    defaults = Limits.from_settings(Settings())
    return lambda **limits: Reader(tmp_path, defaults.model_copy(update=limits))


@pytest.fixture
def reader(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader()


class SharedReader(ReaderProcess):
    """A process that reads the uploads of many tests, as its start takes longer than most."""

    def __exit__(self, *_: object) -> None:
        """Stay for the next test."""


@pytest.fixture(scope="session")
def shared_reader() -> Iterator[SharedReader]:
    reader = SharedReader()
    yield reader
    reader.close()


@pytest.fixture
def make_app(
    tmp_path: Path, database: Database, shared_reader: SharedReader
) -> Iterator[Callable[..., App]]:
    """Return a function that creates an app with given settings on one data directory."""
    ingesters = []

    def make(**settings: Any) -> App:
        values = Settings(
            data_dir=tmp_path / "data", **{"ingest_wait_s": 30, "ingest_memory_mb": 512} | settings
        )
        values.data_dir.mkdir(exist_ok=True)
        blobs = BlobStore(database, values.data_dir / "cache", cache_bytes=values.blob_cache_bytes)
        ingester = Ingester(database, blobs, values, new_reader=lambda: shared_reader)
        ingesters.append(ingester)
        waiting = WaitingRequests(max_per_owner=values.resolved_max_waiting_requests())
        services = DatasetServices(values, database, blobs, ingester, waiting)
        api = FastAPI()
        api.state.settings = values
        api.state.authenticator = Authenticator(
            database, is_open=True, session_lifetime=timedelta(hours=1)
        )
        api.state.rate_limiter = None
        api.state.datasets = services
        install_handlers(api)
        api.include_router(router)
        api.include_router(creation_routes)
        api.include_router(upload_routes)
        app = App(api, services, values.data_dir)
        # FastAPI builds routes at the first request, and silences warnings for all threads then
        assert app.send("GET", "/v1/none").status_code == 404
        return app

    yield make
    for ingester in ingesters:
        ingester.close(TIMEOUT_S)


@pytest.fixture
def app(make_app: Callable[..., App]) -> App:
    return make_app()


@pytest.fixture(scope="session")
def uploads(launch_service: Any, uploads_to: Any) -> Iterator[Any]:
    """A server that responds to uploads once they are parsed; it is shared by several tests."""
    with launch_service(SIBLING_INGEST_WAIT_S=40) as service:
        yield uploads_to(service)
