"""A full disk: each write is refused or waits, reads and calls go on, and all works with space."""

import base64
import contextlib
import gzip
import shutil
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from service.access.keys import new_key
from service.observability.disk_space import FULL_BYTES
from service.storage.database import Database
from service.storage.tables import BlobChunkRow
from sibling import Client
from tests.waiting import wait_for

pytestmark = pytest.mark.slow  # fills a disk

MIB = 2**20
SIZE_MIB = 160
MIN_FREE_BYTES = 64 * MIB
TUS = {"Tus-Resumable": "1.0.0"}
PART = {**TUS, "Content-Type": "application/offset+octet-stream"}
CSV = {"Content-Type": "text/csv"}
READ_AS = {"task_column": "task", "target_column": "y"}
#: A table whose parser makes further files: it is compressed, and not in UTF-8.
LEGACY = gzip.compress(
    b"task,y,x\n"
    + "".join(f"\xe9,{i * i % 997},{i * 7919}\n" for i in range(50_000)).encode("latin-1")
)
TABLE = b"task,x,y\n" + b"a,1,2\na,3,4\na,2,9\n" * 200_000
FINAL = {"ready", "rejected"}
CALL = {"inputs": [[1.0, 2.0, 3.0, 4.0]], "task": "a"}
#: Makes PostgreSQL refuse each write as on a full disk, which a test cannot fill.
DATABASE_FULL = """
CREATE FUNCTION disk_full() RETURNS trigger AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$ LANGUAGE plpgsql;
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
        EXECUTE 'CREATE TRIGGER disk_full BEFORE INSERT OR UPDATE OR DELETE ON '
            || quote_ident(name) || ' FOR EACH STATEMENT EXECUTE FUNCTION disk_full()';
    END LOOP;
END $$;
"""
ROOM_AGAIN = "DROP FUNCTION disk_full() CASCADE"


class SmallService:
    """A service whose data and SQLite file are on two small disks."""

    def __init__(self, service, data_disk, database_disk, key):
        self.service, self.key = service, key
        self.data_disk, self.database_disk = data_disk, database_disk
        self.database = Database(service.database_url)
        self.client = Client(service.url, api_key=key)
        headers = {"Authorization": f"Bearer {key}"}
        self.http = httpx.Client(base_url=service.url, headers=headers, timeout=60)
        rng = np.random.default_rng(0)
        for name, n in (("trained", 30), ("not-looked-at", 40), ("trained-later", 20)):
            rows = {task: rng.normal(size=(n, 4)) for task in "ab"}
            targets = {task: rng.normal(size=n) for task in "ab"}
            setattr(self, name.replace("-", "_"), self.client.upload(rows, targets, name=name))
        for gamma, name in ((0.5, "loaded"), (2.0, "not-loaded")):
            self.client.train(self.trained, "mtfl", model=name, gamma=gamma).wait()
        self.predict("loaded").raise_for_status()

    def close(self):
        self.client.close()
        self.http.close()
        self.database.close()

    def predict(self, model):
        return self.http.post(f"/v1/models/{model}/predict", json=CALL)

    @contextlib.contextmanager
    def full_database(self, *, n_left=0):
        if self.database.is_sqlite:
            with self.database_disk.full(self._shrink_log, n_left=n_left):
                yield
            return
        with self.database.engine.begin() as connection:
            connection.exec_driver_sql(DATABASE_FULL)
        try:
            yield
        finally:
            with self.database.engine.begin() as connection:
                connection.exec_driver_sql(ROOM_AGAIN)

    def _shrink_log(self):
        with (
            contextlib.suppress(sa.exc.OperationalError),
            self.database.engine.connect() as session,
        ):
            session.connection.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()

    def begin_upload(self, length, **headers):
        media_type = base64.b64encode(b"text/csv").decode()
        headers = {"Upload-Length": str(length), "Upload-Metadata": f"filetype {media_type}"}
        query = {"name": "parts", **READ_AS}
        return self.http.post("/v1/uploads", params=query, headers={**TUS, **headers})

    def send_part(self, location, offset, data):
        headers = {**PART, "Upload-Offset": str(offset)}
        return self.http.patch(location, headers=headers, content=data)

    def offset(self, location):
        return int(self.http.head(location, headers=TUS).headers["Upload-Offset"])

    def dataset(self, dataset_id):
        return self.http.get(f"/v1/datasets/{dataset_id}").json()

    def ready(self):
        return self.http.get("/v2/health/ready")

    def writes(self):
        """Return a function that sends each kind of request that writes, by name."""
        send, trained = self.http.request, self.trained.id
        job = {"dataset_id": trained, "algorithm": "pca", "model": "more"}
        batch = {"dataset_id": trained, "model": "loaded", "method": "predict"}
        table = {"params": {"name": "new", **READ_AS}, "headers": CSV, "content": TABLE}
        whole = {"sources": [{"dataset_id": trained}], "name": f"again {time.monotonic_ns()}"}
        return {
            "upload": lambda: send("POST", "/v1/datasets", **table),
            "resumable upload": lambda: self.begin_upload(1000),
            "combination": lambda: send("POST", "/v1/datasets:combine", json=whole),
            "deletion": lambda: send("DELETE", f"/v1/datasets/{self.trained_later.id}"),
            "job": lambda: send("POST", "/v1/jobs", json=job),
            "batch inference": lambda: send("POST", "/v1/jobs:infer", json=batch),
            "alias": lambda: send("PUT", "/v1/models/loaded/aliases/live", json={"version": 1}),
            "session": lambda: send(
                "POST", "/login", data={"key": self.key}, headers={"Origin": self.service.url}
            ),
            "key": lambda: send("POST", "/v1/keys", json={"scopes": ["infer"]}),
        }


@pytest.fixture(scope="module")
def small(databases, launch_on, small_disk):
    data_disk, database_disk = small_disk(SIZE_MIB), small_disk(SIZE_MIB)
    if not data_disk.is_mounted:
        pytest.skip("mounting a small disk needs root")
    url = databases.create()
    if url.startswith("sqlite"):
        shutil.copy(url.removeprefix("sqlite:///"), database_disk.folder / "sibling.db")
        url = f"sqlite:///{database_disk.folder / 'sibling.db'}"
    key = new_key().text()
    settings = {
        "SIBLING_WORKER_SLOTS": 1,
        "SIBLING_MIN_FREE_BYTES": MIN_FREE_BYTES,
        "SIBLING_REQUIRE_KEYS": "true",
        "SIBLING_BOOTSTRAP_KEY": key,
    }
    with launch_on(url, data_dir=data_disk.folder / "data", **settings) as service:
        small = SmallService(service, data_disk, database_disk, key)
        yield small
        small.close()


def check_short(response, place):
    """Check that a request is refused for lack of space, with the place and when to retry."""
    assert response.status_code == 503, response.text
    problem = response.json()
    assert problem["code"] == "resource-shortage"
    assert place in problem["detail"]
    assert int(response.headers["Retry-After"]) > 0


@pytest.mark.sql
def test_each_write_to_a_full_database_is_refused_and_works_with_space_again(small):
    writes = small.writes()
    with small.full_database():
        for write in writes.values():
            check_short(write(), "the database")
        assert small.predict("loaded").status_code == 200
        assert small.http.get("/v1/models").status_code == 200
        html = {"Accept": "text/html", "Origin": small.service.url}
        assert small.http.get("/", headers=html).status_code == 200
        page = small.http.post("/login", data={"key": small.key}, headers=html)
        assert (page.status_code, "retry-after" in page.headers) == (503, True)
        assert page.headers["content-type"].startswith("text/html")
        assert "No space left" in page.text
    answers = {name: write() for name, write in writes.items()}
    assert {name: answer.text for name, answer in answers.items() if answer.is_error} == {}
    uploaded = answers["upload"].json()["id"]
    wait_for(lambda: small.dataset(uploaded)["state"] == "ready")
    for kind in ("job", "batch inference"):
        assert small.client.job(answers[kind].json()["id"]).wait()


def test_a_resumable_upload_goes_on_where_it_was_once_there_is_space(small):
    location = small.begin_upload(len(TABLE)).headers["Location"]
    small.send_part(location, 0, TABLE[:MIB])
    with small.full_database():
        check_short(small.send_part(location, MIB, TABLE[MIB:]), "the database")
        assert small.offset(location) == MIB
    assert small.send_part(location, MIB, TABLE[MIB:]).status_code == 204
    dataset_id = small.http.get(location).json()["dataset_id"]
    ended = wait_for(lambda: (d := small.dataset(dataset_id))["state"] in FINAL and d)
    assert (ended["state"], ended["n_samples"]) == ("ready", 600_000)


def test_nothing_of_an_upload_that_fills_the_disk_stays(small):
    if not small.database.is_sqlite:
        pytest.skip("the disk of PostgreSQL is not a small one")

    def n_bytes():
        with small.database.read() as session:
            return session.scalar(sa.select(sa.func.sum(sa.func.length(BlobChunkRow.data))))

    before, large = n_bytes(), np.random.default_rng(0).bytes(40 * MIB)
    with small.full_database(n_left=20 * MIB):
        sent = small.http.post("/v1/datasets?name=large", headers=CSV, content=large)
        check_short(sent, "the database")
    assert n_bytes() == before


@pytest.mark.parametrize("table", ["plain", "compressed"])
def test_an_upload_that_cannot_be_read_for_lack_of_space_is_read_later(small, table):
    data = {"plain": TABLE[:-18], "compressed": LEGACY}[table]
    with small.data_disk.full():
        sent = small.http.post(
            "/v1/datasets", params={"name": table, **READ_AS}, headers=CSV, content=data
        )
        assert sent.status_code == 202, sent.text
        dataset_id = sent.json()["id"]
        issues = wait_for(lambda: small.dataset(dataset_id)["issues"])
        assert [issue["code"] for issue in issues] == ["resource-shortage"]
        assert "uploads" in issues[0]["detail"]
        assert small.dataset(dataset_id)["state"] in {"uploaded", "ingesting"}
    ended = wait_for(lambda: (d := small.dataset(dataset_id))["state"] in FINAL and d)
    assert (ended["state"], ended["issues"]) == ("ready", [])


def test_the_client_warns_while_an_upload_waits_for_space(small, tmp_path):
    file = tmp_path / "waits.csv"
    file.write_bytes(TABLE[:-6])
    with ThreadPoolExecutor(1) as pool, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with small.data_disk.full():
            uploading = pool.submit(small.client.upload, file, **READ_AS)
            wait_for(lambda: caught)
            assert not uploading.done()
        assert uploading.result().info["state"] == "ready"
    (warning,) = caught
    assert "No space left on device (the folder of uploads" in str(warning.message)


def test_a_file_that_the_cache_has_no_space_for_is_refused_and_served_later(small):
    look = f"/v1/datasets/{small.not_looked_at.id}/preview"
    with small.data_disk.full():
        for response in (
            small.http.get(look),
            small.predict("not-loaded"),
            small.http.post("/v2/repository/models/not-loaded/load"),
            small.http.get("/v2/models/not-loaded/ready"),
        ):
            check_short(response, "the cache")
        index = small.http.post("/v2/repository/index").json()
        states = {entry["name"]: (entry["state"], entry["reason"]) for entry in index}
        assert states["loaded"] == ("READY", "")
        assert states["not-loaded"][0] == "UNAVAILABLE"
        assert "No space left" in states["not-loaded"][1]
        only = small.http.post("/v2/repository/index", json={"ready": True}).json()
        assert "not-loaded" not in {entry["name"] for entry in only}
        assert small.predict("loaded").status_code == 200
    assert small.http.get(look).status_code == 200
    assert small.http.get("/v2/models/not-loaded/ready").status_code == 200
    assert small.predict("not-loaded").status_code == 200
    index = small.http.post("/v2/repository/index").json()
    assert {entry["state"] for entry in index} == {"READY"}


@pytest.mark.parametrize("kind", ["training", "batch inference"])
def test_a_job_that_finds_no_space_for_its_files_is_tried_again(small, kind):
    # its dataset and model have copies, so that only what it writes is short
    with small.data_disk.full():
        if kind == "training":
            job = small.client.train(small.trained, "mtfl", model="late")
        else:
            job = small.client.infer("loaded", "predict", small.trained)
        error = wait_for(lambda: job.refresh().info["error"])
        assert error["code"] == "resource-shortage"
        assert "the folder of jobs" in error["detail"]
        assert job.info["state"] == "queued"
    job.wait()
    outcomes = [attempt["outcome"] for attempt in job.info["attempts"]]
    assert outcomes == ["postponed"] * (len(outcomes) - 1) + ["succeeded"]


def test_health_warns_before_a_disk_is_full_and_is_not_ready_once_it_is(small):
    wait_for(lambda: not small.ready().json()["warnings"])  # of tests before
    filler = small.data_disk.folder / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(filler.parent).free - MIN_FREE_BYTES // 2))
    warned = wait_for(lambda: (found := small.ready().json())["warnings"] and found)
    assert warned["ready"]
    assert "data directory" in warned["warnings"][0]
    filler.unlink()
    wait_for(lambda: not small.ready().json()["warnings"])
    with small.data_disk.full():
        wait_for(lambda: small.ready().status_code == 503)
        assert "data directory" in small.ready().json()["reasons"][0]
        assert small.predict("loaded").status_code == 200
        assert "sibling_ready 0.0" in small.http.get("/metrics").text
        page = wait_for(lambda: small.http.get("/", headers={"Accept": "text/html"}))
        assert "nothing more can be stored" in page.text
    wait_for(lambda: small.ready().status_code == 200)
    assert shutil.disk_usage(small.data_disk.folder).free > FULL_BYTES
