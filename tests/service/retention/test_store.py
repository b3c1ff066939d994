"""What retention deletes, and what it never deletes, row by row."""

import random
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from service.datasets import store as dataset_store
from service.jobs.queue import store as job_store
from service.retention import store
from service.retention.store import BATCH_SIZE
from service.storage.blob_rows import mark_for_deletion
from service.storage.blobs import MAX_SMALL_BYTES, BlobStore
from service.storage.database import now
from service.storage.job_states import FINAL, JobState
from service.storage.tables import (
    AliasRow,
    AttemptRow,
    BlobChunkRow,
    BlobRow,
    DatasetRow,
    EventRow,
    IdempotencyRow,
    JobRow,
    ModelRow,
    MonitoredRow,
    MonitoredTarget,
    MonitorRow,
    VersionRow,
    new_id,
)
from tests.service.stored import count, dataset_row, job_of, version_row

pytestmark = pytest.mark.sql

ROWS = (DatasetRow, JobRow, AttemptRow, EventRow, IdempotencyRow, VersionRow, BlobRow, BlobChunkRow)
LATER = timedelta(days=1)
EVERYTHING = (
    store.expire_events,
    store.expire_attempts,
    store.expire_jobs,
    store.expire_idempotency_keys,
    store.expire_blobs,
)


def ids_of(database, column) -> set[str]:
    with database.read() as session:
        return set(session.scalars(sa.select(column)).all())


class World:
    """A database that rows are added to as the service adds them."""

    def __init__(self, database, folder, seed=0):
        self.database, self.random = database, random.Random(seed)
        self.blobs = BlobStore(database, folder / "cache", cache_bytes=1)
        self.folder = folder
        self.contents: dict[str, bytes] = {}

    def blob(self, session) -> str:
        """Store some bytes; now and then they are those of another blob."""
        content = self.random.randbytes(1) * 5
        path = self.folder / "content"
        path.write_bytes(content)
        blob_id = self.blobs.put_file(session, path).id
        self.contents[blob_id] = content
        return blob_id

    def dataset(self) -> str:
        with self.database.write() as session:
            row = dataset_row(
                id=new_id("ds"),
                fingerprint=new_id("f"),
                content_blob_id=self.blob(session),
                content_sha256="0",
                manifest={},
            )
            session.add(row)
        return row.id

    def job(self, dataset_id, state=JobState.SUCCEEDED, parent_id=None, n_events=3) -> str:
        with self.database.write() as session:
            job = job_of(dataset_id=dataset_id)
            row = job_store.create(session, job, state=state, parent_id=parent_id)
            row.finished_at = now() if state in FINAL else None
            session.add(
                AttemptRow(
                    job_id=row.id, attempt=1, worker="w", outcome=state, finished_at=row.finished_at
                )
            )
            data = [
                {"job_id": row.id, "attempt": 1, "kind": "progress", "data": {}}
                for _ in range(n_events)
            ]
            session.execute(sa.insert(EventRow), data)
            session.add(
                IdempotencyRow(owner="ada", key=row.id, fingerprint="f", resource_id=row.id)
            )
        return row.id

    def version(self, job_id, base_id=None) -> str:
        with self.database.write() as session:
            model = ModelRow(id=new_id("mod"), owner="ada", name=new_id("m"), latest_version=1)
            session.add(model)
            session.flush()
            job = session.get_one(JobRow, job_id)
            row = version_row(
                id=new_id("mdl"),
                model_id=model.id,
                job_id=job_id,
                base_id=base_id,
                dataset_id=job.dataset_id,
                artifact_blob_id=self.blob(session),
            )
            session.add(row)
        return row.id

    def lone_blob(self, *, is_complete=True) -> str:
        """Leave a blob without a reference, old enough to be deleted."""
        writer = self.blobs.writer()
        writer.write(new_id("content").encode())
        writer.flush()
        if is_complete:
            with self.database.write() as session:
                return writer.finish(session).id
        return writer._id


@pytest.fixture
def world(database, tmp_path):
    return World(database, tmp_path)


def expire(database, *kinds, before=None):
    return [sum(kind(database, before or now() + LATER)) for kind in kinds]


# --- nothing that a model needs ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_rows_are_models_keep_all_they_need(database, tmp_path, seed):
    world = World(database, tmp_path, seed)
    choose = world.random
    datasets = [world.dataset() for _ in range(4)]
    versions, kept_jobs = [], set()
    for _ in range(25):
        state = choose.choice([*JobState, JobState.SUCCEEDED, JobState.SUCCEEDED])
        job_id = world.job(choose.choice(datasets), state)
        children = [
            world.job(
                datasets[0], choose.choice([*FINAL] if state in FINAL else [*JobState]), job_id
            )
            for _ in range(choose.choice([0, 0, 2]))
        ]
        if state == JobState.SUCCEEDED and choose.random() < 0.5:
            base = choose.choice([None, *versions])
            versions.append(world.version(job_id, base))
            kept_jobs |= {job_id, *children}
        elif state not in FINAL:
            kept_jobs |= {job_id, *children}
        elif choose.random() < 0.3:
            with database.write() as session:
                job_store.set_output(session, job_id, world.blob(session), {})
    with database.write() as session:
        for dataset_id in datasets:
            if not dataset_store.needed_by(session, dataset_id):
                dataset_store.delete(session, session.get_one(DatasetRow, dataset_id))
    lone = {world.lone_blob(is_complete=choose.random() < 0.5) for _ in range(5)}

    expire(database, *EVERYTHING)

    assert ids_of(database, VersionRow.id) == set(versions)
    assert ids_of(database, JobRow.id) == kept_jobs
    assert not lone & ids_of(database, BlobRow.id)
    with database.read() as session:
        needed = set(session.scalars(sa.select(VersionRow.artifact_blob_id)))
        needed |= set(session.scalars(sa.select(DatasetRow.content_blob_id))) - {None}
        assert set(session.scalars(sa.select(BlobRow.id))) == needed
        deleted = sa.select(DatasetRow.id).where(DatasetRow.state == "deleted")
        used = set(session.scalars(sa.select(JobRow.dataset_id)))
        assert set(session.scalars(deleted)) <= used
        states = sa.select(JobRow.state).join(EventRow, EventRow.job_id == JobRow.id)
        assert not set(session.scalars(states)) & FINAL
        states = sa.select(JobRow.state).join(AttemptRow, AttemptRow.job_id == JobRow.id)
        assert not set(session.scalars(states)) & FINAL
    for blob_id in needed:
        assert b"".join(world.blobs.chunks(blob_id)) == world.contents[blob_id]


def test_nothing_is_deleted_before_its_time(world, database):
    world.job(world.dataset(), JobState.FAILED)
    world.lone_blob()
    world.lone_blob(is_complete=False)
    before = [count(database, row) for row in ROWS]
    assert expire(database, *EVERYTHING, before=now() - LATER) == [0] * 5
    assert [count(database, row) for row in ROWS] == before


# --- each kind -----------------------------------------------------------------------------------


def test_more_than_a_batch_of_events_expires_in_steps(world, database):
    dataset_id = world.dataset()
    running = world.job(dataset_id, JobState.RUNNING, n_events=BATCH_SIZE)
    world.job(dataset_id, JobState.FAILED, n_events=2 * BATCH_SIZE)
    steps = list(store.expire_events(database, now() + LATER))
    assert max(steps) <= BATCH_SIZE
    assert sum(steps) == 2 * BATCH_SIZE + 1
    assert ids_of(database, EventRow.job_id) == {running}


def test_a_job_with_many_events_is_deleted_in_steps(world, database):
    world.job(world.dataset(), JobState.FAILED, n_events=2 * BATCH_SIZE)
    assert len(list(store.expire_jobs(database, now() + LATER))) > 2
    assert count(database, EventRow) == count(database, JobRow) == 0


def test_a_used_idempotency_key_is_kept_until_it_is_old(world, database):
    job_id = world.job(world.dataset())
    assert expire(database, store.expire_idempotency_keys, before=now() - LATER) == [0]
    assert expire(database, store.expire_idempotency_keys) == [1]
    assert ids_of(database, JobRow.id) == {job_id}


def test_a_large_blob_is_deleted_in_steps(world, database):
    writer = world.blobs.writer()
    writer.write(bytes(MAX_SMALL_BYTES))
    for _ in range(20):
        writer.write(b"x")
        writer.flush()
    steps = list(store.expire_blobs(database, now() + LATER))
    assert len(steps) > 3
    assert sum(steps) == 1
    assert count(database, BlobRow) == count(database, BlobChunkRow) == 0


def test_the_age_of_an_upload_is_that_of_its_last_chunk(world, database):
    writer = world.blobs.writer()
    with database.write() as session:
        session.execute(sa.update(BlobRow).values(created_at=now() - 3 * LATER))
    writer.write(b"a slow upload")
    writer.flush()
    assert expire(database, store.expire_blobs, before=now() - LATER) == [0]
    with database.write() as session:
        assert writer.finish(session).size_bytes == 13


# --- at the same time ----------------------------------------------------------------------------


def test_uploads_and_publications_during_a_sweep_lose_nothing(world, database):
    """Each writes bytes that are stored already, without a reference, and about to be deleted."""
    has_ended = threading.Event()
    failures = []

    def sweep():
        while not has_ended.is_set():
            try:
                expire(database, store.expire_blobs, before=now() - LATER / 2)
            except Exception as error:  # noqa: BLE001
                failures.append(error)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    expected = {}
    for number in range(25):
        content = f"content {number}".encode()
        for _ in range(2):  # the second finds the first, if it has not been swept
            writer = world.blobs.writer()
            writer.write(content)
            writer.flush()
            with database.write() as session:
                blob = writer.finish(session)
                if not expected.get(number):
                    session.execute(
                        sa.update(BlobRow)
                        .where(BlobRow.id == blob.id)
                        .values(created_at=now() - LATER)
                    )
                    expected[number] = [content]
                    continue
                new = dataset_store.NewDataset("ada", "d", "text/csv", {}, f"upload {number}")
                dataset_store.create(session, new, blob)
        job_id = world.job(ids_of(database, DatasetRow.id).pop())
        world.version(job_id)  # of random bytes that may be stored already
    has_ended.set()
    sweeper.join()
    assert failures == []
    with database.read() as session:
        uploads = session.execute(
            sa.select(DatasetRow.fingerprint, DatasetRow.upload_blob_id)
        ).all()
        artifacts = session.scalars(sa.select(VersionRow.artifact_blob_id)).all()
    assert len(uploads) == len(artifacts) == 25
    for fingerprint, blob_id in uploads:
        number = int(fingerprint.split()[1])
        assert b"".join(world.blobs.chunks(blob_id)) == expected[number][0]
    for blob_id in artifacts:
        assert b"".join(world.blobs.chunks(blob_id)) == world.contents[blob_id]


def test_a_blob_that_is_referenced_meanwhile_is_not_marked_for_deletion(world, database):
    blob_id = world.lone_blob()
    dataset_id = world.dataset()
    with database.write() as session:
        session.get_one(DatasetRow, dataset_id).upload_blob_id = blob_id
    with database.write() as session:
        assert not mark_for_deletion(session, blob_id, before=now() + LATER)


def test_nothing_is_older_than_a_century(world, database):
    world.job(world.dataset())
    for expire in EVERYTHING:
        assert sum(expire(database, now() - timedelta(days=36500))) == 0


# --- monitors ------------------------------------------------------------------------------------


def add_monitored(world, monitor_id, ages_days):
    with world.database.write() as session:
        for age in ages_days:
            created_at = now() - timedelta(days=age)
            key = {"monitor_id": monitor_id, "row_id": f"{age}"}
            session.add(
                MonitoredRow(
                    **key, version=1, task="a", prediction=1.0, size_bytes=1, created_at=created_at
                )
            )
            session.add(
                MonitoredTarget(**key, target=1.0, created_at=created_at, updated_at=created_at)
            )


def test_monitored_rows_end_after_the_days_of_their_monitor_or_with_it(world):
    database = world.database
    version_id = world.version(world.job(world.dataset()))
    with database.write() as session:
        model_id = session.get(VersionRow, version_id).model_id
        alias = {"model_id": model_id, "alias": "production"}
        session.add(AliasRow(**alias, version_id=version_id, move_id="m", moved_at=now()))
        session.flush()
        monitor = {"share": 1.0, "days": 7, "never_keep": [], "change_id": "c"}
        session.add(MonitorRow(id="mon_1", **alias, **monitor))
    add_monitored(world, "mon_1", [1, 6, 8, 30])
    add_monitored(world, "mon_gone", range(BATCH_SIZE + 1))
    assert sum(store.expire_monitored(database, now())) == 4 + 2 * (BATCH_SIZE + 1)
    assert ids_of(database, MonitoredRow.row_id) == {"1", "6"}
    assert ids_of(database, MonitoredTarget.row_id) == {"1", "6"}
    assert sum(store.expire_monitored(database, now())) == 0
