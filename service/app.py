"""The application: its parts, its routes, its life."""

import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access.authenticator import Authenticator
from service.batch.routes import router as batch
from service.blobs import BlobStore
from service.catalogue.routes import router as catalogue
from service.context import Services
from service.datasets.ingestion.ingester import Ingester
from service.datasets.routes import router as datasets
from service.errors import install_handlers
from service.health.routes import metrics_router
from service.health.routes import router as health
from service.health.watch import Watch, queue_state
from service.http import ProblemSchema
from service.inference.cache import ModelCache
from service.inference.handler import MakeHandler
from service.inference.pool import ComputePool
from service.inference.resolver import ModelResolver
from service.inference.routes import HANDLERS as V1_HANDLERS
from service.inference.routes import router as inference
from service.inference.statistics import Statistics
from service.inference.v2.repository import router as v2_repository
from service.inference.v2.routes import HANDLERS as V2_HANDLERS
from service.inference.v2.routes import calls as v2_calls
from service.inference.v2.routes import public as v2_public
from service.inference.v2.routes import router as v2
from service.inference.v2.schemas import InferBody
from service.jobs.queue.dispatcher import Dispatcher
from service.jobs.routes import router as jobs
from service.jobs.worker.child_process import TERM_GRACE_S
from service.jobs.worker.engine import Engine
from service.metrics import Metrics
from service.middleware import RequestContext
from service.models.alias_routes import router as aliases
from service.models.columns import ColumnNames
from service.models.routes import router as models
from service.models.version_routes import router as model_versions
from service.schema import open_database
from service.settings import Settings
from service.ui.routes import router as ui

#: An inference request makes some hundred objects, and leaves no cycles behind.
_GC_THRESHOLDS: Final = 10_000, 10, 10
DESCRIPTION = """Train related tasks together, serve them over HTTP.

Upload a dataset of tasks, submit a job, watch it, and call the model it makes.
Errors are RFC 9457 problems; every `code` is in docs/errors.md."""
#: Of the routes of inference, by their paths.
HANDLERS: Final[dict[str, MakeHandler]] = {**V2_HANDLERS, **V1_HANDLERS}


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application, by default as the environment says.

    Its parts start and stop with it.
    """
    settings = settings or Settings()
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        services = await run_in_threadpool(_start, settings, metrics)
        app.state.services = services
        metrics.report_state(partial(queue_state, services.database), services.watch.reasons)
        _tune_gc()
        try:
            yield
        finally:
            await run_in_threadpool(_stop, services)

    app = _App(
        title="Sibling",
        version=version("sibling"),
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    install_handlers(app)
    app.state.metrics = metrics
    for router in (
        v2_calls,
        v2,
        inference,
        v2_public,
        v2_repository,
        health,
        metrics_router,
        catalogue,
        datasets,
        jobs,
        batch,
        models,
        model_versions,
        aliases,
        ui,
    ):
        app.include_router(router)
    return app


class _App(FastAPI):
    """An application whose document tells what no route does by itself: problems and keys."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return what answers a request."""
        framework = super().build_middleware_stack()
        assert isinstance(framework, ServerErrorMiddleware)  # tells defects in its own way
        return RequestContext(framework.app, self.state.metrics, calls=HANDLERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or self.middleware_stack is None:
            await super().__call__(scope, receive, send)
            return
        # what the framework does besides, it does from there on
        scope["app"] = self
        await self.middleware_stack(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Give the OpenAPI document."""
        document = super().openapi()
        parts = document["components"]
        if "securitySchemes" not in parts:
            for schema in (ProblemSchema, InferBody):
                parts["schemas"] |= _schemas_of(schema)
            parts["schemas"]["V2Error"] = _of_v2(parts["schemas"]["Problem"])
            for path, operations in document["paths"].items():
                if path.startswith("/v2"):
                    for operation in operations.values():
                        operation["responses"].pop("422", None)  # the framework's; it is 400 there
            parts["schemas"].pop("HTTPValidationError", None)
            parts["schemas"].pop("ValidationError", None)
            scheme = {"type": "http", "scheme": "bearer", "description": "An API key, sib_..."}
            parts["securitySchemes"] = {"key": scheme}
            document["security"] = [{"key": []}, {}]  # none is asked for on loopback
        return document


def _schemas_of(model: type[BaseModel]) -> dict[str, Any]:
    """Give the schema of a model and of those in it, by name, as the document refers to them."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs", {}), schema["title"]: schema}


def _of_v2(problem: dict[str, Any]) -> dict[str, Any]:
    """Give the schema of an error under ``/v2``: a problem with one member more."""
    error = {"type": "string", "description": "The detail, where clients of the protocol look."}
    return {
        **problem,
        "title": "V2Error",
        "properties": {"error": error, **problem["properties"]},
        "required": ["error", *problem["required"]],
    }


def openapi() -> dict[str, Any]:
    """Give the OpenAPI document, without starting anything."""
    return create_app().openapi()


def _start(settings: Settings, metrics: Metrics) -> Services:
    data_dir = settings.data_dir.resolve()
    database = open_database(settings)
    blobs = BlobStore(database, data_dir / "cache", cache_bytes=settings.blob_cache_bytes)

    def open_engine() -> Engine:
        return Engine(
            url=settings.engine_url,
            slots=settings.resolved_slots(),
            database_url=database.url,
            data_dir=data_dir,
            tls_dir=settings.tls_dir,
        )

    dispatcher = Dispatcher(
        database,
        open_engine=open_engine,
        lease_timeout_s=settings.lease_s,
        heartbeat_timeout_s=settings.stale_s,
        drain_timeout_s=settings.drain_s,
        stop_timeout_s=settings.stop_grace_s + TERM_GRACE_S + settings.heartbeat_s,
    )
    dispatcher.start()
    watch = Watch(database, dispatcher)
    watch.start()
    ingester = Ingester(database, blobs, settings)
    threading.Thread(target=ingester.recover, name="recover", daemon=True).start()
    models = ModelCache(blobs, metrics, max_bytes=settings.model_cache_bytes)
    compute = ComputePool(
        metrics,
        threads=settings.resolved_inference_threads(),
        queue_size=settings.inference_waiting,
        processes=settings.workers,
    )
    authenticator = Authenticator(database, is_open=not settings.asks_for_keys())
    return Services(
        settings,
        database,
        blobs,
        authenticator,
        ingester,
        dispatcher,
        watch,
        ModelResolver(database, single_process=database.is_sqlite and settings.workers == 1),
        models,
        ColumnNames(database),
        compute,
        Statistics(metrics),
    )


def _tune_gc() -> None:
    """Exempt what stays from garbage collection: modules, routes, schemas.

    Collections would traverse all of it again and again while requests wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _stop(services: Services) -> None:
    services.compute.close()
    services.watch.stop()
    services.dispatcher.stop()
    services.database.close()
