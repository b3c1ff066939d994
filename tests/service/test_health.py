"""Ready is 503 with the reason, within a second or two, when something is not there."""

import signal
import time
from contextlib import contextmanager

import httpx
import psutil
import pytest
import sqlalchemy as sa

from service.observability.readiness import ReadinessMonitor
from service.storage.postgres import PING_TIMEOUT_S

pytestmark = pytest.mark.sql

#: Maximum time from the fault to the response that reports it, in seconds.
MAX_REPORT_DELAY_S = 2.5
#: Maximum time of each response meanwhile.
MAX_RESPONSE_S = 1


@pytest.fixture
def until(stopwatch):
    """``body, took_s = until(url, is_right)``: the health once it is right, and the time."""

    def wait(url, is_right):
        deadline, elapsed_s = time.monotonic() + 240, stopwatch()
        while True:
            response_s = stopwatch()
            response = httpx.get(f"{url}/v2/health/ready", timeout=240)
            assert response_s() < MAX_RESPONSE_S
            if is_right(response):
                return response.json(), elapsed_s()
            assert time.monotonic() < deadline, response.text
            time.sleep(0.05)

    return wait


def reports(part):
    return lambda response: (
        response.status_code == 503 and any(part in reason for reason in response.json()["reasons"])
    )


def is_ready(response):
    return response.status_code == 200 and response.json()["ready"]


def test_a_schema_of_another_version_is_reported(start_service, until):
    service = start_service()
    with service.open_database() as database:
        with database.write() as session:
            before = session.scalar(sa.text("SELECT version_num FROM alembic_version"))
            session.execute(sa.text("UPDATE alembic_version SET version_num = 'of-tomorrow'"))
        body, took = until(service.url, reports("schema of-tomorrow"))
        assert body["live"]
        assert took < MAX_REPORT_DELAY_S
        assert httpx.get(f"{service.url}/v2/health/live", timeout=240).json()["live"]
        with database.write() as session:
            session.execute(
                sa.text("UPDATE alembic_version SET version_num = :before"), {"before": before}
            )
        until(service.url, is_ready)


@contextmanager
def held_still(database):
    """Hold the processes of the server of a database still, until the end of the block."""
    with database.engine.connect() as connection:
        pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        server = psutil.Process(pid).parent()
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGCONT)


@pytest.mark.slow  # waits
def test_a_database_that_hangs_is_reported_and_health_responds(
    launch_on, postgres, until, stopwatch
):
    """A file does not hang; a server can."""
    with launch_on(postgres.create()) as service:
        with service.open_database() as database, held_still(database):
            _, took = until(service.url, reports("has not responded"))
            assert took < MAX_REPORT_DELAY_S
            elapsed_s = stopwatch()
            assert httpx.get(f"{service.url}/v2/health/live", timeout=240).status_code == 200
            assert elapsed_s() < PING_TIMEOUT_S / 2
        until(service.url, is_ready)


@pytest.mark.slow
def test_a_scheduler_that_hangs_or_has_ended_is_reported(launch_on, cluster, until):
    """On the database of a newcomer: which it is plays no part."""
    scheduler = cluster.scheduler()
    cluster.worker("worker")
    settings = {"SIBLING_SCHEDULER_URL": cluster.url, "SIBLING_TLS_DIR": cluster.folder / "tls"}
    with launch_on("", **settings) as service:
        for fault in (signal.SIGSTOP, signal.SIGKILL):
            scheduler.send_signal(fault)
            _, took = until(service.url, reports("scheduler does not respond"))
            assert took < MAX_REPORT_DELAY_S
            if fault == signal.SIGSTOP:
                scheduler.send_signal(signal.SIGCONT)
                until(service.url, is_ready)


def test_a_check_that_raises_is_reported_and_repeated(wait_until):
    is_broken = True

    def find_error():
        if is_broken:
            raise AttributeError

    monitor = ReadinessMonitor({"the engine": find_error}, warnings={"the workers": find_error})
    monitor.start()
    try:
        wait_until(lambda: any("AttributeError" in reason for reason in monitor.reasons()))
        wait_until(lambda: any("AttributeError" in reason for reason in monitor.warnings()))
        is_broken = False
        wait_until(lambda: not monitor.reasons() and not monitor.warnings())
    finally:
        monitor.stop()
