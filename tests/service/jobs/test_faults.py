"""Fault injection: crashes, floods of output, lost databases, full disks, frozen processes.

A job that succeeds makes exactly one model, a failed one makes none and reports its cause, and no
process or file is left. The service has two slots, so that a frozen worker does not stop the other.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
import sqlalchemy as sa

from service.storage.database import Database
from service.storage.tables import BlobChunkRow, BlobRow, JobRow, ModelRow, VersionRow
from sibling import Client, JobFailed
from tests.waiting import wait_for

pytestmark = pytest.mark.slow  # kills processes and fills disks

MISCHIEF = Path(__file__).parent / "mischief"
SEGFAULT, FLOOD, SWALLOW, NATIVE, NUL, SLOW = 9001, 9002, 9003, 9004, 9005, 9006
LONG = {"selection": "cv", "n_folds": 5, "starts": "many"}
#: On a busy machine a worker may pause for some seconds.
HEARTBEAT_TIMEOUT_S, DB_RETRY_TIMEOUT_S, STOP_GRACE_S = 4, 10, 0.5
#: A heartbeat, and a dispatcher tick.
SLACK_S = 2
#: The log of SQLite grows while a frozen process reads, for minutes on a busy machine.
SMALL_DISK_MIB = 600

HOLD_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=240, isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""
DISK_FULL = """
CREATE FUNCTION disk_full() RETURNS trigger AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$ LANGUAGE plpgsql;
CREATE TRIGGER disk_full BEFORE INSERT ON blob_chunks
    FOR EACH ROW EXECUTE FUNCTION disk_full();
"""
NO_WAIT = sa.text("SET LOCAL lock_timeout = '100ms'")
ROOM_AGAIN = "DROP TRIGGER disk_full ON blob_chunks; DROP FUNCTION disk_full();"


class Faulty:
    """A service with faults, and access to its database, processes and files."""

    def __init__(self, service, databases, disk):
        self.service, self.databases, self.disk = service, databases, disk
        self.url = service.database_url
        self.is_sqlite = self.url.startswith("sqlite")
        self.database = Database(self.url)
        self.hasty = Database(self.url)
        if self.is_sqlite:
            sa.event.listen(self.hasty.engine, "connect", _shorten_timeout)
        self.client = Client(service.url)
        rng = np.random.default_rng(0)
        self.small = self.client.upload({t: rng.normal(size=(8, 5)) for t in "ab"}, name="small")
        rows = {f"task {t}": rng.normal(size=(40, 24)) for t in range(50)}
        self.large = self.client.upload(rows, name="large")

    def close(self):
        self.client.close()
        self.database.close()
        self.hasty.close()

    def train(self, name, seed=0, *, k=1, **limits):
        return self.client.train(self.small, "pca", model=name, seed=seed, limits=limits, k=k)

    def train_long(self, name, *, k=5):
        """Return a job that iterates for some seconds on any machine."""
        job = self.client.train(self.large, "rmt-pca", model=name, seed=SLOW, k=k, **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        return job

    def child_of(self, job):
        """Return the process that trains a job."""
        children = self.worker_of(job).children()
        (child,) = [p for p in children if "service.jobs.worker.child" in _command(p)]
        return child

    def row(self, job):
        with self.database.read() as session:
            return session.get_one(JobRow, job.id)

    def worker_of(self, job):
        return psutil.Process(json.loads(self.row(job).worker)["pid"])

    def children(self):
        """Return the child processes of the workers."""
        family = psutil.Process(self.service.process.pid).children(recursive=True)
        return [p for p in family if "service.jobs.worker.child" in _command(p)]

    def n_models(self, name):
        """Return the number of versions of a model, and check that their artifacts are complete."""
        with self.database.read() as session:
            query = sa.select(VersionRow).join(ModelRow).where(ModelRow.name == name)
            versions = session.scalars(query).all()
            for version in versions:
                size = sa.func.sum(sa.func.length(BlobChunkRow.data))
                stored = session.scalar(
                    sa.select(size).where(BlobChunkRow.blob_id == version.artifact_blob_id)
                )
                assert stored == version.artifact_bytes
        return len(versions)

    def files(self, pattern):
        """Return the files that attempts have written."""
        work = self.service.data_dir / "work"
        return [path for path in work.rglob(pattern) if path.is_file()]

    def check_tidy(self):
        """Check that no file, partial blob or surplus child process is left."""
        wait_for(lambda: not self.files("*"))
        with self.database.read() as session:
            partial = sa.select(sa.func.count()).where(BlobRow.sha256.is_(None))
            assert session.scalar(partial) == 0
        assert len(self.children()) <= 2

    @contextlib.contextmanager
    def without_database(self):
        if not self.is_sqlite:
            with self.databases.away(self.url):
                yield
            return
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD_SQLITE, self.url.removeprefix("sqlite:///")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with holder:
            assert holder.stdout.readline() == "held\n"
            yield
            holder.communicate("")

    @contextlib.contextmanager
    def without_space(self):
        """Make every write to the database fail for lack of space."""
        if self.is_sqlite:
            with self.disk.full(self._shrink_log):
                yield
        else:
            with self.database.engine.begin() as connection:
                connection.exec_driver_sql(DISK_FULL)
            try:
                yield
            finally:
                with self.database.engine.begin() as connection:
                    connection.exec_driver_sql(ROOM_AGAIN)

    def _shrink_log(self):
        with contextlib.suppress(sa.exc.OperationalError):
            wait_for(self._is_shrunk)

    def _is_shrunk(self):
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            is_busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        engine.dispose()
        return not is_busy

    @contextlib.contextmanager
    def frozen(self, job, processes):
        """Freeze processes, but not during a write.

        A frozen writer of SQLite would block all others, as it holds a lock on the file.
        """

        def freeze():
            for process in processes:
                process.suspend()
            time.sleep(0.05)
            with contextlib.suppress(sa.exc.OperationalError), self.hasty.write() as session:
                session.execute(NO_WAIT) if not self.is_sqlite else None
                session.execute(sa.update(JobRow).where(JobRow.id == job.id).values(priority=0))
                return True
            for process in processes:
                process.resume()
            return False

        try:
            wait_for(freeze)
            yield
        finally:
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()


def mischief_in(folder):
    """Return the environment of a server whose faults the files of a folder control."""
    path = os.pathsep.join([str(MISCHIEF), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path, "MISCHIEF": folder}


@pytest.fixture(scope="module")
def faulty(databases, launch_on, small_disk, tmp_path_factory):
    folder, disk = tmp_path_factory.mktemp("faults"), None
    (folder / "mischief").mkdir()
    url = databases.create()
    if url.startswith("sqlite"):
        disk = small_disk(SMALL_DISK_MIB)
        shutil.copy(url.removeprefix("sqlite:///"), disk.folder)
        url = f"sqlite:///{disk.folder / 'sibling.db'}"
    env = {
        **mischief_in(folder / "mischief"),
        "SIBLING_WORKER_SLOTS": 2,
        "SIBLING_HEARTBEAT_TIMEOUT_S": HEARTBEAT_TIMEOUT_S,
        "SIBLING_LEASE_TIMEOUT_S": 2,
        "SIBLING_CHECKPOINT_INTERVAL_S": 0.2,
        "SIBLING_STOP_GRACE_S": STOP_GRACE_S,
        "SIBLING_DB_RETRY_TIMEOUT_S": DB_RETRY_TIMEOUT_S,
        "SIBLING_DRAIN_TIMEOUT_S": 0,
    }
    with launch_on(url, **env) as service:
        faulty = Faulty(service, databases, disk)
        faulty.mischief = folder / "mischief"
        yield faulty
        faulty.close()


def fail(job):
    """Return the error of a job that fails."""
    with pytest.raises(JobFailed):
        job.wait()
    return job.info["error"]


def test_a_segfault_is_reported_with_the_last_output(faulty):
    error = fail(faulty.train("segfault", SEGFAULT, max_attempts=1))
    assert error["code"] == "crashed"
    assert "SIGSEGV" in error["detail"]
    assert error["detail"].endswith("these are its last words")
    assert 4096 < len(error["detail"]) < 4200
    assert faulty.n_models("segfault") == 0
    faulty.check_tidy()


def test_invalid_bytes_in_the_last_output_do_not_hide_the_cause(faulty):
    error = fail(faulty.train("odd", NUL, max_attempts=1))
    assert error["code"] == "crashed"
    assert "SIGABRT" in error["detail"]
    assert "odd bytes" in error["detail"]


def test_a_crash_is_retried_up_to_the_maximum(faulty):
    job = faulty.train("stubborn", SEGFAULT, max_attempts=2)
    assert fail(job)["attempt"] == 2
    assert [a["outcome"] for a in job.info["attempts"]] == ["lost", "lost"]


def test_a_child_that_cannot_start_fails_the_job_with_the_cause(faulty):
    (faulty.mischief / "start").write_text("raise")
    for child in faulty.children():
        child.kill()
    error = fail(faulty.train("unstartable"))
    assert error["code"] == "crashed"
    assert "algorithms.registry" in error["detail"]
    (faulty.mischief / "start").unlink()
    faulty.train("startable").wait()


def test_a_job_that_prints_megabytes_succeeds(faulty):
    faulty.train("loud", FLOOD).wait()
    assert faulty.n_models("loud") == 1


def test_a_job_beyond_its_memory_limit_fails_and_is_not_retried(faulty):
    job = faulty.train("hungry", SWALLOW, memory_mb=512)
    assert fail(job)["code"] == "out-of-memory"
    assert job.info["attempt"] == 1
    assert faulty.n_models("hungry") == 0


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_job_inside_native_code_ends_within_the_grace_period(faulty, stopwatch, how):
    native, limit_s = faulty.mischief / "native", 1.5 if how == "timeout" else 600
    while True:
        job = faulty.train(how, NATIVE, timeout_s=limit_s)
        wait_for(lambda job=job: native.exists() or job.refresh().info["is_final"])
        if native.exists():
            break
        limit_s *= 2  # it ended before it was there, as the machine is busy
    elapsed_s = stopwatch()
    native.unlink()
    if how == "cancel":
        time.sleep(1)
        elapsed_s = stopwatch()
        job.cancel()
    with pytest.raises(JobFailed):
        job.wait()
    took_s = elapsed_s() - (limit_s if how == "timeout" else 0)
    assert job.state == {"cancel": "cancelled", "timeout": "timed_out"}[how]
    assert took_s < STOP_GRACE_S + SLACK_S
    assert faulty.n_models(how) == 0
    faulty.check_tidy()


@pytest.mark.sql
def test_a_job_survives_an_unavailable_database(faulty):
    job = faulty.train_long("survivor")
    with faulty.without_database():
        time.sleep(3 * HEARTBEAT_TIMEOUT_S)
    job.wait()
    assert [(a["outcome"], a["error"]) for a in job.info["attempts"]] == [("succeeded", None)]
    assert faulty.n_models("survivor") == 1
    faulty.check_tidy()


def test_a_model_is_published_once_there_is_space_again(faulty):
    job = faulty.train_long("full", k=4)  # another k, as equal bytes would not be stored again
    with faulty.without_space():
        # it has trained, and cannot store the model
        wait_for(lambda: faulty.files("model"))
        time.sleep(1.5 * HEARTBEAT_TIMEOUT_S)
        assert faulty.n_models("full") == 0
    job.wait()
    assert [(a["outcome"], a["error"]) for a in job.info["attempts"]] == [("succeeded", None)]
    assert faulty.n_models("full") == 1
    faulty.check_tidy()


@pytest.mark.sql
def test_a_job_without_space_for_its_model_fails_with_the_cause(faulty):
    if faulty.is_sqlite:
        pytest.skip("a full SQLite database cannot store the failure either")
    with faulty.without_space():
        job = faulty.train("no-room", k=2, max_attempts=1)
        error = fail(job)
    assert error["code"] == "result-not-stored"
    assert "No space left on device" in error["detail"]
    assert faulty.n_models("no-room") == 0
    faulty.check_tidy()


@pytest.mark.sql
def test_a_result_that_cannot_be_stored_can_be_cancelled(faulty):
    if faulty.is_sqlite:
        pytest.skip("a full SQLite database cannot store a cancel request either")
    with faulty.without_space():
        job = faulty.train("given-up", k=3)
        wait_for(lambda: faulty.files("model"))
        job.cancel()
        with pytest.raises(JobFailed):
            job.wait()
    assert job.state == "cancelled"
    faulty.check_tidy()


def test_a_frozen_worker_is_replaced_and_its_late_result_discarded(faulty):
    job = faulty.train_long("frozen")
    worker = faulty.worker_of(job)
    child = faulty.child_of(job)
    with faulty.frozen(job, [worker]):  # its child continues, and finishes
        wait_for(lambda: faulty.row(job).attempt == 2)
        job.wait()
        assert faulty.n_models("frozen") == 1
    outcomes = [a["outcome"] for a in job.info["attempts"]]
    assert outcomes == ["lost", "succeeded"]
    assert "no heartbeat" in job.info["attempts"][0]["error"]["detail"]
    faulty.check_tidy()
    assert faulty.n_models("frozen") == 1
    assert faulty.row(job).attempt == 2
    # Dask has replaced it, or it was fenced out and can run jobs again
    wait_for(lambda: _state_of(child) in {"ended", psutil.STATUS_SLEEPING})
    wait_for(lambda: _state_of(worker) != psutil.STATUS_STOPPED)
    for n in range(2):
        faulty.train(f"thawed-{n}").wait()


def test_a_child_that_is_killed_while_it_writes_leaves_no_part_of_a_file(faulty):
    job = faulty.train_long("half-written")
    child = faulty.child_of(job)

    def is_stopped_while_it_writes():
        child.suspend()
        wait_for(lambda: _state_of(child) == psutil.STATUS_STOPPED)
        if faulty.files("*.part"):
            return True
        child.resume()
        return False

    wait_for(is_stopped_while_it_writes)
    child.kill()
    job.wait()
    assert job.info["attempt"] == 2
    faulty.check_tidy()


@pytest.mark.slow  # needs an idle machine
def test_a_frozen_worker_with_its_child_is_replaced_and_its_attempt_ended(faulty):
    name = f"frozen-all-{uuid.uuid4().hex}"  # the service is that of an earlier try
    job = faulty.train_long(name)
    worker = faulty.worker_of(job)
    child = faulty.child_of(job)
    with faulty.frozen(job, [worker, child]):
        wait_for(lambda: faulty.row(job).attempt == 2)
        job.wait()
    wait_for(lambda: _state_of(child) == "ended")  # its result would be discarded
    assert faulty.n_models(name) == 1
    faulty.train(f"after-{name}").wait()  # an attempt removes the files of a worker that was killed
    faulty.check_tidy()


@pytest.mark.sql
def test_many_requests_with_one_idempotency_key_make_one_job(faulty):
    spec = {"dataset_id": faulty.small.id, "algorithm": "pca", "model": "one", "params": {"k": 1}}

    def submit(_):
        headers = {"Idempotency-Key": "the one"}
        url = f"{faulty.service.url}/v1/jobs"
        return httpx.post(url, json=spec, headers=headers, timeout=240)

    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(submit, range(50)))
    assert {response.status_code for response in responses} <= {200, 202}
    (job_id,) = {response.json()["id"] for response in responses}
    faulty.client.job(job_id).wait()
    assert faulty.n_models("one") == 1


def test_a_clock_set_forward_loses_no_job(start_service, databases, tmp_path):
    """The clock of the API process, which dispatches, is set forward by an hour.

    The time limit of heartbeats is one that none exceeds, however busy the machine is.
    """
    service = start_service(
        is_forked=False,
        SIBLING_WORKER_SLOTS=1,
        SIBLING_HEARTBEAT_TIMEOUT_S=600,
        **mischief_in(tmp_path),
    )
    with contextlib.closing(Faulty(service, databases, tmp_path)) as faulty:
        job = faulty.train_long("timeless")
        (tmp_path / "clock").touch()
        wait_for((tmp_path / "clock is set").exists)
        job.wait()
        assert [(a["outcome"], a["error"]) for a in job.info["attempts"]] == [("succeeded", None)]
        after = faulty.train("an-hour-later")
        after.wait()
        assert after.info["attempt"] == 1
    before_and_after = [datetime.fromisoformat(j.info["created_at"]) for j in (job, after)]
    assert before_and_after[1] - before_and_after[0] > timedelta(minutes=59)


def _shorten_timeout(connection, _record):
    connection.execute("PRAGMA busy_timeout = 100").close()


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _state_of(process):
    """Return the state of a process; one that has ended may be a zombie for a moment."""
    try:
        state = process.status()
    except psutil.NoSuchProcess:
        return "ended"
    return "ended" if state == psutil.STATUS_ZOMBIE else state
