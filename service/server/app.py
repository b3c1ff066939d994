"""The FastAPI application: routes, middleware, startup and shutdown."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from importlib.metadata import version
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.concurrency import contextmanager_in_threadpool
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access.rate_limit import RateLimiter
from service.batch.routes import router as batch
from service.catalogue.routes import router as catalogue
from service.datasets.creation_routes import router as dataset_creation
from service.datasets.inspection_routes import router as dataset_inspection
from service.datasets.resumable_upload_routes import router as uploads
from service.datasets.routes import router as datasets
from service.errors.problems import install_handlers
from service.inference.handler import MakeHandler
from service.inference.prediction_routes import router as predictions
from service.inference.routes import HANDLERS as V1_HANDLERS
from service.inference.routes import router as inference
from service.inference.v2.repository import router as v2_repository
from service.inference.v2.routes import HANDLERS as V2_HANDLERS
from service.inference.v2.routes import calls as v2_calls
from service.inference.v2.routes import public as v2_public
from service.inference.v2.routes import router as v2
from service.jobs.event_routes import router as job_events
from service.jobs.routes import router as jobs
from service.models.alias_routes import router as aliases
from service.models.comparison_routes import router as model_comparisons
from service.models.plot_routes import router as model_plots
from service.models.routes import router as models
from service.models.version_routes import router as model_versions
from service.monitoring.feedback_routes import router as feedback
from service.monitoring.report_routes import router as monitor_reports
from service.monitoring.routes import router as monitors
from service.observability.metrics import Metrics
from service.renewal.routes import router as renewals
from service.server import openapi
from service.server.audit_routes import router as audit
from service.server.connections import CONNECTIONS, Connections
from service.server.health_routes import metrics_router
from service.server.health_routes import router as health
from service.server.hosts import HostPolicy
from service.server.key_routes import quotas
from service.server.key_routes import router as keys
from service.server.middleware import RequestContext, RequestLog
from service.server.parts import opened_parts
from service.settings import Settings
from service.ui import (
    access_routes,
    assets,
    form_routes,
    help_routes,
    reference_routes,
    report_routes,
    routes,
    session_routes,
    vega_routes,
)
from service.ui.error_pages import install_error_pages
from service.webhooks.routes import router as webhooks

DESCRIPTION = """Train related tasks together, and serve the models over HTTP.

Upload a dataset of tasks, submit a training job, follow its progress, and call the model.
Errors are RFC 9457 problem details; docs/reference/errors.md lists every `code`."""
#: Inference handlers by the path of their route.
HANDLERS: Final[dict[str, MakeHandler]] = {**V2_HANDLERS, **V1_HANDLERS}
_ROUTERS: Final = (
    v2_calls,
    v2,
    predictions,
    inference,
    v2_public,
    v2_repository,
    health,
    metrics_router,
    catalogue,
    dataset_creation,
    dataset_inspection,
    datasets,
    uploads,
    jobs,
    job_events,
    batch,
    models,
    model_plots,
    model_comparisons,
    model_versions,
    report_routes.router,
    aliases,
    monitors,
    feedback,
    monitor_reports,
    renewals,
    audit,
    keys,
    webhooks,
    quotas,
    assets.router,
    vega_routes.router,
    reference_routes.router,
    help_routes.router,
    session_routes.router,
    access_routes.router,
    form_routes.router,
    routes.router,
)
#: High thresholds: an inference request creates some hundred objects, but no reference cycles.
_GC_THRESHOLDS: Final = 10_000, 10, 10


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application; by default, settings come from the environment.

    Its components start and stop with it.
    """
    settings = settings or Settings()
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        gc.collect()  # before parts start threads, some of which watch collections
        async with contextmanager_in_threadpool(opened_parts(app.state, settings, metrics)):
            connections = Connections(settings)
            connections.start()
            _tune_gc()
            yield {CONNECTIONS: connections}
            connections.stop()

    app = _App(
        title="Sibling",
        version=version("sibling"),
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,  # service/ui has the document, and pages without scripts of other sites
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,  # one title, one schema: for generators of clients
        generate_unique_id_function=lambda route: route.name,
    )
    install_handlers(app)
    install_error_pages(app)
    app.state.settings = settings
    app.state.metrics = metrics
    limit = settings.max_requests_per_s
    app.state.rate_limiter = RateLimiter(limit) if limit else None
    for router in _ROUTERS:
        app.include_router(router)
    app.state.routes = [route for router in _ROUTERS for route in router.routes]
    return app


class _App(FastAPI):
    """FastAPI with our own middleware and a completed OpenAPI document."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the ASGI application below this one."""
        framework = super().build_middleware_stack()
        assert isinstance(framework, ServerErrorMiddleware)  # replaced by ours
        hosts = HostPolicy(self.state.settings)
        return RequestContext(framework.app, RequestLog(self.state.metrics, HANDLERS), hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or self.middleware_stack is None:
            await super().__call__(scope, receive, send)
            return
        # as in FastAPI, without steps that are not needed here
        scope["app"] = self
        await self.middleware_stack(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            openapi.complete(super().openapi())
        return super().openapi()

    @cached_property
    def openapi_json(self) -> bytes:
        """The OpenAPI document as JSON, serialised once."""
        return orjson.dumps(self.openapi())


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document without starting the service."""
    return create_app().openapi()


def _tune_gc() -> None:
    """Exempt all present objects (modules, routes, schemas) from garbage collection.

    Every collection would traverse them while requests wait.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_GC_THRESHOLDS)
