"""A PostgreSQL server that hangs: nothing waits for ever, nothing is a 500, nothing is lost."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import anyio
import httpx
import numpy as np
import psutil
import pytest
import sqlalchemy as sa

import service.storage.database
from service.errors.problems import problem_of
from service.server.parts import N_REQUEST_THREADS, _count_database_threads
from service.settings import Settings
from service.storage.database import UNAVAILABLE, Database
from service.storage.postgres import PING_TIMEOUT_S, RESPONSE_MARGIN_S
from sibling import Client

pytestmark = pytest.mark.slow  # waits for limits of time

STATEMENT_TIMEOUT_S = 2
CONNECT_TIMEOUT_S = 5  # a busy machine takes more than 2 s to connect
SILENCE_S = STATEMENT_TIMEOUT_S + RESPONSE_MARGIN_S
#: Two requests, one after the other, each with the longest wait; and slowness of the machine.
ANSWER_WITHIN_S = 2 * (SILENCE_S + PING_TIMEOUT_S + CONNECT_TIMEOUT_S) + 10
LONG = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}
TIMEOUT_S = 240


@pytest.fixture
def databases(postgres):
    """A file does not hang."""
    return postgres


@contextlib.contextmanager
def frozen(*processes):
    """Stop processes until the end of the block."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in reversed(processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def backend_of(session):
    return psutil.Process(session.scalar(sa.text("SELECT pg_backend_pid()")))


def server_of(database):
    """Return the processes of the database's server, the first one before its children."""
    with database.read() as session:
        server = backend_of(session).parent()
    return [server, *server.children(recursive=True)]


@pytest.fixture
def hasty(database):
    """The database through connections with short limits."""
    opened = Database(
        database.url,
        statement_timeout_s=STATEMENT_TIMEOUT_S,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        max_connections=4,
    )
    yield opened
    opened.close()


def test_a_slow_statement_is_cancelled_and_the_connection_stays_usable(hasty):
    with hasty.read() as session:
        backend = backend_of(session)
    with pytest.raises(UNAVAILABLE, match="statement timeout"), hasty.read() as session:
        session.execute(sa.text("SELECT pg_sleep(60)"))
    with hasty.read() as session:
        assert backend_of(session) == backend


def test_a_silent_connection_is_given_up_and_replaced(hasty, stopwatch):
    def sleep():
        with hasty.read() as session, frozen(backend_of(session)):
            started, elapsed_s = time.monotonic(), stopwatch()
            try:
                session.execute(sa.text("SELECT 1"))
            finally:
                took_s.extend((elapsed_s(), time.monotonic() - started))

    took_s = []
    with pytest.raises(UNAVAILABLE, match="has not responded"):
        sleep()
    assert took_s[0] < SILENCE_S + 5
    assert took_s[1] >= SILENCE_S
    with hasty.read() as session:
        assert session.scalar(sa.text("SELECT 1")) == 1


def test_a_pooled_connection_that_went_silent_is_replaced_without_an_error(hasty):
    with hasty.read() as session:
        backend = backend_of(session)
    with frozen(backend), hasty.read() as session:
        assert backend_of(session) != backend


def test_only_one_session_at_a_time_tries_a_silent_server(database, hasty, stopwatch):
    def query():
        with hasty.read() as session:
            session.execute(sa.text("SELECT 1"))

    with frozen(*server_of(database)):
        with pytest.raises(UNAVAILABLE):
            query()  # has waited in vain
        with ThreadPoolExecutor(8) as pool:
            elapsed_s = stopwatch()
            queries = [pool.submit(query) for _ in range(64)]
            wait(queries)
            took_s = elapsed_s()
        assert all(isinstance(done.exception(), UNAVAILABLE) for done in queries)
        # of 8 threads, one waits for the server, some times; without the limit, all do 8 times
        assert took_s < 3 * (PING_TIMEOUT_S + CONNECT_TIMEOUT_S)
    query()


def test_an_error_of_the_caller_does_not_keep_the_server_silent(database, hasty):
    with frozen(*server_of(database)), pytest.raises(UNAVAILABLE), hasty.read() as session:
        session.execute(sa.text("SELECT 1"))
    with pytest.raises(KeyError), hasty.read() as session:
        raise KeyError
    sessions = [hasty.read(), hasty.read()]
    with sessions[0] as first, sessions[1] as second:
        assert first.scalar(sa.text("SELECT 1")) == second.scalar(sa.text("SELECT 1")) == 1


def test_a_pool_without_a_free_connection_is_503(database, monkeypatch):
    monkeypatch.setattr(service.storage.database, "POOL_TIMEOUT_S", 0.05)
    small = Database(database.url, max_connections=1)
    with small.read() as session:
        session.execute(sa.text("SELECT 1"))
        with pytest.raises(UNAVAILABLE) as caught, small.read() as other:
            other.execute(sa.text("SELECT 1"))
    small.close()
    problem = problem_of(caught.value)
    assert (problem.status_code, problem.headers["Retry-After"]) == (503, "1")


def test_connections_that_are_not_in_use_can_be_released(database, hasty):
    query = sa.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
    with database.read() as session:
        before = session.scalar(query)
    with hasty.read() as session:
        assert session.scalar(query) == before + 1
    hasty.release_connections()
    deadline = time.monotonic() + TIMEOUT_S  # the server notices a moment later
    while True:
        with database.read() as session:
            if session.scalar(query) == before:
                break
        assert time.monotonic() < deadline


def test_requests_have_as_many_threads_as_are_counted():
    async def count():
        return anyio.to_thread.current_default_thread_limiter().total_tokens

    assert anyio.run(count) == N_REQUEST_THREADS


def test_the_documented_number_of_threads_is_that_of_database_connections():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "scaling.md"
    settings = Settings(inference_threads=1)
    text = f"The {_count_database_threads(settings) - 1} threads of a server process"
    assert text in page.read_text("utf-8")


@pytest.fixture
def served(launch_on, postgres):
    with launch_on(
        postgres.create(),
        SIBLING_DB_STATEMENT_TIMEOUT_S=STATEMENT_TIMEOUT_S,
        SIBLING_DB_CONNECT_TIMEOUT_S=CONNECT_TIMEOUT_S,
    ) as running:
        yield running


def requests_of(dataset, http):
    """Return requests of all kinds, none of which can be answered without the database."""
    job = {"dataset_id": dataset.id, "algorithm": "pca", "model": "later", "params": {"k": 1}}
    rows = {"inputs": [{"name": "a", "shape": [1, 4], "datatype": "FP64", "data": [1, 2, 3, 4]}]}
    text = {"Content-Type": "text/csv"}
    return [
        lambda: http.get("/v1/jobs"),
        lambda: http.get("/v1/models"),
        lambda: http.get("/v1/jobs/job_1?wait=1"),
        lambda: http.get("/v1/jobs/job_1/events", headers={"Accept": "text/event-stream"}),
        lambda: http.post("/v1/jobs", json=job, headers={"Idempotency-Key": "later"}),
        lambda: http.post("/v1/datasets?name=d", content="task,x\na,1\n", headers=text),
        lambda: http.post("/v2/models/unknown/infer", json=rows),  # the fast path
        lambda: http.post("/v2/models/unkn%6Fwn/infer", json=rows),  # the framework
        lambda: http.delete("/v1/models/unknown/versions/1"),
        lambda: http.get("/metrics"),
    ]


def follow(http, job_id, lines):
    """Add the lines of an event stream, which ends with the job, to a list."""
    headers = {"Accept": "text/event-stream"}
    with http.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as response:
        for line in response.iter_lines():
            if line.startswith("data:"):
                lines.append(line)
    return lines


@pytest.mark.timeout(600)
def test_a_server_that_hangs_gives_503_and_everything_goes_on_afterwards(served, wait_until):
    rng = np.random.default_rng(0)
    large = {f"task {t}": rng.normal(size=(40, 24)) for t in range(50)}
    limits = httpx.Limits(max_connections=None)
    with (
        Client(served.url) as client,
        httpx.Client(base_url=served.url, timeout=ANSWER_WITHIN_S, limits=limits) as http,
        served.open_database() as database,
        ThreadPoolExecutor(128) as pool,
    ):
        dataset = client.upload({"a": np.eye(4), "b": np.eye(4)}, name="d")
        job = client.train(client.upload(large, name="large"), "rmt-pca", model="long", **LONG)
        wait_until(lambda: job.refresh().info["progress"], seconds=TIMEOUT_S)
        lines = []
        stream = pool.submit(follow, http, job.id, lines)
        wait_until(lambda: lines, seconds=TIMEOUT_S)  # the stream began before the server hangs
        waiting = pool.submit(lambda: http.get(f"/v1/jobs/{job.id}", params={"wait": 20}))
        with frozen(*server_of(database)):
            calls = requests_of(dataset, http)
            sent = [pool.submit(call) for call in calls for _ in range(10)]
            while not all(request.done() for request in sent):
                live = http.get("/v2/health/live", timeout=5)
                assert live.status_code == 200
                time.sleep(0.2)
            ready = http.get("/v2/health/ready", timeout=5)
            assert ready.status_code == 503
            assert any("the database" in reason for reason in ready.json()["reasons"])
            for response in (request.result() for request in sent):
                if response.request.url.path == "/metrics":  # without the state of the queue
                    assert response.status_code == 200
                    continue
                assert response.status_code == 503, response.text
                assert response.headers["retry-after"] == "1"
                assert response.json()["code"] == "unavailable"
        job.wait()
        assert [attempt["outcome"] for attempt in job.info["attempts"]] == ["succeeded"]
        assert [model["name"] for model in client.models] == ["long"]
        assert '"succeeded"' in stream.result(TIMEOUT_S)[-1]
        assert waiting.result(TIMEOUT_S).status_code in (200, 503)
        wait_until(lambda: http.get("/v2/health/ready").status_code == 200, seconds=TIMEOUT_S)
        client.train(dataset, "pca", model="after", k=1).wait()
    log = served.log()
    assert '"status": 500' not in log
    assert "request.failed" not in log
