"""Ready is 503 with the reason, within a second or two, when something is not there."""

import signal
import time

import httpx
import psutil
import pytest
import sqlalchemy as sa

from service.database import Database
from service.schema import migrate

#: Between the fault and the answer that tells it.
TOLD_WITHIN_S = 2.5


def until(url, is_right):
    """Give the health once it is as expected, and how long that took."""
    started = time.monotonic()
    while True:
        response = httpx.get(f"{url}/v2/health/ready", timeout=1)
        if is_right(response):
            return response.json(), time.monotonic() - started
        assert time.monotonic() - started < 20, response.text
        time.sleep(0.05)


def is_told(part):
    return lambda response: (
        response.status_code == 503 and any(part in reason for reason in response.json()["reasons"])
    )


def is_ready(response):
    return response.status_code == 200 and response.json()["ready"]


def test_a_schema_of_another_version_is_told(start_service):
    service = start_service(SIBLING_SLOTS=1)
    database = Database(f"sqlite:///{service.data_dir / 'sibling.db'}")
    with database.engine.begin() as connection:
        before = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'of-tomorrow'"))
    body, took = until(service.url, is_told("schema of-tomorrow"))
    assert body["live"]
    assert took < TOLD_WITHIN_S
    assert httpx.get(f"{service.url}/v2/health/live").json()["live"]
    with database.engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE alembic_version SET version_num = :before"), {"before": before}
        )
    until(service.url, is_ready)
    database.close()


def test_a_database_that_hangs_is_told_and_health_does_not_hang(start_service, new_postgres):
    url = new_postgres()
    database = Database(url)
    migrate(database)
    service = start_service(DATABASE_URL=url, SIBLING_SLOTS=1)
    with database.engine.connect() as connection:
        pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        server = psutil.Process(pid).parent()
    database.close()
    backends = [server, *server.children(recursive=True)]
    for process in backends:
        process.send_signal(signal.SIGSTOP)
    try:
        _, took = until(service.url, is_told("has not answered"))
        assert took < TOLD_WITHIN_S
        started = time.monotonic()
        assert httpx.get(f"{service.url}/v2/health/live", timeout=1).status_code == 200
        assert time.monotonic() - started < 0.5
    finally:
        for process in reversed(backends):
            process.send_signal(signal.SIGCONT)
    until(service.url, is_ready)


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_scheduler_that_is_gone_or_hangs_is_told(start_service, cluster, fault):
    scheduler = cluster.scheduler()
    cluster.worker("worker")
    service = start_service(
        ENGINE_URL=cluster.url, SIBLING_TLS_DIR=cluster.folder / "tls", SIBLING_SLOTS=1
    )
    scheduler.send_signal(fault)
    _, took = until(service.url, is_told("scheduler does not answer"))
    assert took < TOLD_WITHIN_S
    if fault == signal.SIGSTOP:
        scheduler.send_signal(signal.SIGCONT)
        until(service.url, is_ready)
