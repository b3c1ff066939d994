"""Components of the application: created at startup and closed at shutdown."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from starlette.datastructures import State

from algorithms.registry import preload
from service.access.authenticator import N_REFRESH_THREADS, Authenticator
from service.audit.recorder import AuditRecorder
from service.batch.context import BatchServices
from service.datasets.context import DatasetServices
from service.datasets.ingestion.ingester import N_THREADS as N_INGEST_THREADS
from service.datasets.ingestion.ingester import Ingester
from service.http.waiting import WaitingRequests
from service.inference.context import InferenceServices
from service.inference.inputs import InputSpecs
from service.inference.pool import ComputePool
from service.inference.statistics import Statistics
from service.jobs.changes import ChangeWatcher
from service.jobs.context import JobServices as Jobs
from service.jobs.queue.dispatcher import Dispatcher
from service.jobs.queue.queries import queue_state, shortage
from service.jobs.watcher import JobWatcher
from service.jobs.worker.engine import Engine
from service.models.cache import ModelCache
from service.models.columns import ColumnNames
from service.models.context import ModelServices
from service.models.images import ImageProcess
from service.models.resolver import ModelResolver
from service.monitoring.context import MonitorServices
from service.monitoring.recorder import Recorder
from service.observability.disk_space import DiskSpace
from service.observability.metrics import Metrics
from service.observability.readiness import ReadinessMonitor
from service.processes.supervision import TERM_GRACE_S
from service.renewal.context import RenewalServices
from service.renewal.renewer import Renewer
from service.retention.sweeper import Sweeper
from service.settings import Settings
from service.storage.blobs import BlobStore, open_blobs
from service.storage.database import Database
from service.storage.migration import database_error, open_database
from service.webhooks.sender import Sender

#: Threads of routes, of the watcher of jobs, and of authentication: anyio's default.
N_REQUEST_THREADS: Final = 40
#: Time for uploads that are being parsed when the server stops; the next one starts them again.
_INGEST_CLOSE_S: Final = 1


@contextmanager
def opened_parts(state: State, settings: Settings, metrics: Metrics) -> Iterator[None]:
    """Create the components, set them on the application's state, and close them at the end.

    The services of a package have its name, such as ``state.datasets``.
    """
    with ExitStack() as stack:
        database = _open_database(stack, settings)
        preload()
        # first: the search for BLAS libraries holds the loader's lock and needs the interpreter;
        # a thread that imports holds the interpreter and needs the loader's lock
        compute = _open_compute_pool(stack, settings, metrics)
        audit = AuditRecorder(database, metrics)
        stack.callback(audit.close)
        blobs = open_blobs(database, settings)
        dispatcher = _start_dispatcher(stack, settings, database, metrics)
        sweeper = Sweeper(
            database, settings, is_leader=dispatcher.is_leader, count=metrics.count_deleted
        )
        stack.enter_context(sweeper)
        if settings.resolved_webhook_hosts():
            sender = Sender(
                database,
                settings,
                is_leader=dispatcher.is_leader,
                count=metrics.count_webhook_attempt,
            )
            stack.enter_context(sender)
        readiness = _start_readiness(stack, settings, database, dispatcher)
        metrics.report_state(
            partial(queue_state, database), readiness.reasons, settings.data_dir.resolve()
        )
        ingester = _start_ingester(stack, settings, database, blobs)
        images = ImageProcess()
        stack.callback(images.close)
        authenticator = _open_authenticator(stack, settings, database)
        resolver = ModelResolver(
            database, single_process=database.is_sqlite and settings.workers == 1
        )
        models = ModelCache(blobs, metrics, max_bytes=settings.model_cache_bytes)
        columns = ColumnNames(database)
        waiting = WaitingRequests(max_per_owner=settings.resolved_max_waiting_requests())
        watcher = JobWatcher(database, waiting)

        state.readiness = readiness
        state.database = database
        state.audit = audit
        state.authenticator = authenticator
        state.datasets = DatasetServices(settings, database, blobs, ingester, waiting)
        state.jobs = Jobs(settings, database, dispatcher, watcher, ChangeWatcher(database, waiting))
        state.models = ModelServices(settings, database, blobs, resolver, models, images)
        recorder = stack.enter_context(Recorder(database, models, columns, metrics, settings))
        state.inference = InferenceServices(
            settings,
            database,
            resolver,
            models,
            InputSpecs(columns),
            compute,
            Statistics(metrics),
            recorder.record,
        )
        state.monitoring = MonitorServices(
            state.models, state.inference, columns, metrics.report_alarms
        )
        state.renewal = RenewalServices(state.datasets, state.monitoring)
        renewer = Renewer(state.renewal, is_leader=dispatcher.is_leader, wake=dispatcher.wake)
        stack.enter_context(renewer)
        state.batch = BatchServices(
            settings,
            database,
            blobs,
            state.jobs,
            resolver,
            models,
            columns,
            compute.blas_threads,
        )
        yield


def _open_database(stack: ExitStack, settings: Settings) -> Database:
    limit = settings.db_max_connections or _count_database_threads(settings)
    database = open_database(settings, max_connections=limit)
    stack.callback(database.close)
    return database


def _count_database_threads(settings: Settings) -> int:
    """Return the number of threads of a server process that can have a session at the same time.

    With as many connections, no thread waits for one.
    """
    return (
        N_REQUEST_THREADS
        + settings.resolved_inference_threads()
        + N_REFRESH_THREADS
        + N_INGEST_THREADS
        + 1  # recovery of uploads, at the start
        + 1  # dispatcher
        + 1  # retention
        + 1  # webhooks
        + 1  # audit events
        + 1  # monitors
        + 1  # renewals
        + 2  # readiness: the database, the machines of workers
        + 1  # start and stop
    )


def _start_dispatcher(
    stack: ExitStack, settings: Settings, database: Database, metrics: Metrics
) -> Dispatcher:
    def open_engine() -> Engine:
        return Engine(settings, database_url=database.url)

    dispatcher = Dispatcher(
        database,
        open_engine=open_engine,
        lease_timeout_s=settings.lease_timeout_s,
        heartbeat_timeout_s=settings.heartbeat_timeout_s,
        submit_timeout_s=settings.submit_timeout_s,
        drain_timeout_s=settings.drain_timeout_s,
        stop_timeout_s=settings.stop_grace_s + TERM_GRACE_S + settings.heartbeat_interval_s,
        priority_across_owners=settings.priority_across_owners,
        report_workers=metrics.report_workers,
    )
    dispatcher.start()
    stack.callback(dispatcher.stop)
    return dispatcher


def _start_readiness(
    stack: ExitStack, settings: Settings, database: Database, dispatcher: Dispatcher
) -> ReadinessMonitor:
    folders = {"the data directory": settings.data_dir.resolve()}
    if database.is_sqlite:
        folders["the database"] = Path(str(database.engine.url.database)).resolve().parent
    disks = DiskSpace(folders, min_free_bytes=settings.min_free_bytes)
    readiness = ReadinessMonitor(
        {
            "the database": partial(database_error, database),
            "the job engine": dispatcher.error,
            "the disk": disks.error,
        },
        warnings={
            "the free space of the disk": disks.warning,
            "the workers": dispatcher.warning,
            "the machines of workers": partial(shortage, database),
        },
    )
    readiness.start()
    stack.callback(readiness.stop)
    return readiness


def _start_ingester(
    stack: ExitStack, settings: Settings, database: Database, blobs: BlobStore
) -> Ingester:
    ingester = Ingester(database, blobs, settings)
    stack.callback(ingester.close, _INGEST_CLOSE_S)
    threading.Thread(target=ingester.recover, name="recover", daemon=True).start()
    return ingester


def _open_compute_pool(stack: ExitStack, settings: Settings, metrics: Metrics) -> ComputePool:
    compute = ComputePool(
        metrics,
        threads=settings.resolved_inference_threads(),
        queue_size=settings.inference_queue_size,
        processes=settings.workers,
    )
    stack.callback(compute.close)
    return compute


def _open_authenticator(stack: ExitStack, settings: Settings, database: Database) -> Authenticator:
    authenticator = Authenticator(
        database,
        is_open=not settings.requires_keys(),
        session_lifetime=timedelta(hours=settings.session_hours),
    )
    stack.callback(authenticator.close)
    return authenticator
