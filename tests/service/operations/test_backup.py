"""Backup of a database in use, and its restoration elsewhere."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from service.storage.blobs import BlobWriter
from service.storage.database import Database
from service.storage.migration import SchemaMismatch
from service.storage.tables import BlobChunkRow, BlobRow
from sibling import Client

pytestmark = pytest.mark.sql

ROOT = Path(__file__).parents[3]
CHUNK = os.urandom(100_000)


@pytest.fixture
def tools(databases, monkeypatch):
    """The folder of the server's own tools in PATH: those of an older version refuse its data."""
    url = databases.create()
    database = Database(url)
    if not database.is_sqlite:
        with database.engine.connect() as connection:
            query = "SELECT setting FROM pg_config() WHERE name = 'BINDIR'"
            folder = connection.execute(sa.text(query)).scalar_one()
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    database.close()
    databases.drop(url)


@pytest.fixture
def empty_url(databases):
    """The address of a database without tables."""
    url = databases.create(is_migrated=False)
    yield url
    databases.drop(url)


@pytest.fixture
def run(command):
    """``run(*words, url=, folder=)``: ``sibling`` on a database."""

    def on_database(*words, url, folder, check=True):
        return command(*words, check=check, SIBLING_DATABASE_URL=url, SIBLING_DATA_DIR=str(folder))

    return on_database


def store_blob(database, data):
    writer = BlobWriter(database)
    writer.write(data)
    with database.write() as session:
        return writer.finish(session)


def contents(database):
    with database.read() as session:
        blobs = session.execute(sa.select(BlobRow.id, BlobRow.sha256).order_by(BlobRow.id)).all()
        return [
            (blob_id, sha256, session.scalars(query(blob_id)).all()) for blob_id, sha256 in blobs
        ]


def query(blob_id):
    chunks = sa.select(BlobChunkRow.data).where(BlobChunkRow.blob_id == blob_id)
    return chunks.order_by(BlobChunkRow.position).execution_options(has_bytes=True)


@pytest.mark.usefixtures("tools")
def test_a_backup_during_writes_is_one_moment_of_the_database(run, database, empty_url, tmp_path):
    """A writer numbers its blobs; a backup has the first n of them, whole, and no other."""
    store_blob(database, CHUNK)
    n_written, stop = 0, threading.Event()

    def write():
        nonlocal n_written
        while not stop.is_set():
            store_blob(database, n_written.to_bytes(8) + CHUNK)
            n_written += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        backup = tmp_path / "one.backup"
        run("backup", backup, url=database.url, folder=tmp_path / "a")
    finally:
        stop.set()
        writer.join()
    assert n_written > 0
    assert backup.stat().st_mode & 0o777 == 0o600  # it has the hashes of keys
    assert list(tmp_path.glob("*.part*")) == []
    run("restore", backup, url=empty_url, folder=tmp_path / "b")
    restored = Database(empty_url)
    blobs = contents(restored)
    restored.close()
    # an upload that had not ended may leave a blob without a hash
    numbers = [
        int.from_bytes(data[0][:8]) for _, sha256, data in blobs if sha256 and data[0] != CHUNK
    ]
    assert sorted(numbers) == list(range(len(numbers)))
    assert len(numbers) <= n_written
    before = {row[0]: row for row in contents(database)}
    assert all(row == before[row[0]] for row in blobs if row[1])


@pytest.mark.slow
@pytest.mark.timeout(180)  # two servers, and two commands
@pytest.mark.usefixtures("tools")
def test_a_restored_service_predicts_the_same_bits(
    run, launch_service, launch_on, databases, tmp_path
):
    rng = np.random.default_rng(5)
    tasks = {name: rng.standard_normal((20, 4)) for name in ("a", "b")}
    targets = {name: rows @ rng.standard_normal(4) for name, rows in tasks.items()}
    rows = rng.standard_normal((7, 4))
    backup = tmp_path / "drill.backup"
    with (
        launch_service() as original,
        Client(original.url) as client,
    ):
        model = client.train(client.upload(tasks, targets), "ridge", model="drill").wait()
        model.set_alias("production")
        expected = model.predict(rows, task="a")
        run("backup", backup, url=original.database_url, folder=original.data_dir)
        listed = [list(items) for items in (client.models, client.datasets, client.jobs)]
    url = databases.create(is_migrated=False)
    run("restore", backup, url=url, folder=tmp_path / "elsewhere")
    with launch_on(url) as elsewhere, Client(elsewhere.url) as client:
        assert [list(items) for items in (client.models, client.datasets, client.jobs)] == listed
        assert client.aliases("drill") == {"production": 1}
        again = client.model("drill").predict(rows, task="a")
        assert np.asarray(again).tobytes() == np.asarray(expected).tobytes()
        # the service continues from there
        next_one = client.train(listed[1][0]["id"], "ridge", model="drill").wait()
        assert next_one.version == 2
    databases.drop(url)


@pytest.mark.usefixtures("tools")
def test_a_backup_never_overwrites(run, database, empty_url, tmp_path):
    backup = tmp_path / "one.backup"
    run("backup", backup, url=database.url, folder=tmp_path)
    data = backup.read_bytes()
    again = run("backup", backup, url=database.url, folder=tmp_path, check=False)
    assert again.returncode == 1
    assert "already exists" in again.stderr
    assert backup.read_bytes() == data
    store_blob(database, CHUNK)
    refused = run("restore", backup, url=database.url, folder=tmp_path, check=False)
    assert refused.returncode == 1
    assert "not empty" in refused.stderr
    assert len(contents(database)) == 1
    run("restore", backup, url=empty_url, folder=tmp_path)
    refused = run("restore", backup, url=empty_url, folder=tmp_path, check=False)
    assert "not empty" in refused.stderr


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("damage", ["truncated", "other", "missing"])
def test_a_damaged_backup_is_rejected_and_leaves_nothing(
    run, damage, database, empty_url, tmp_path
):
    store_blob(database, CHUNK)
    backup = tmp_path / "one.backup"
    run("backup", backup, url=database.url, folder=tmp_path)
    data = backup.read_bytes()
    if damage == "missing":
        backup.unlink()
    else:
        backup.write_bytes(data[: len(data) // 2] if damage == "truncated" else b"no backup")
    end = run("restore", backup, url=empty_url, folder=tmp_path, check=False)
    assert end.returncode == 1, end.stderr
    assert "Traceback" not in end.stderr
    assert str(backup) in end.stderr
    empty = Database(empty_url)
    with empty.engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == []
    empty.close()


def test_a_backup_of_a_newer_version_is_rejected(tmp_path):
    from service.operations.backup import back_up, restore
    from service.storage.migration import migrate

    source = Database(f"sqlite:///{tmp_path / 'source.db'}")
    migrate(source)
    with source.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    back_up(source, tmp_path / "one.backup")
    source.close()
    with pytest.raises(SchemaMismatch, match="from-the-future"):
        restore(f"sqlite:///{tmp_path / 'target.db'}", tmp_path / "one.backup")
    assert not (tmp_path / "target.db").exists()


@pytest.mark.slow  # PostgreSQL
def test_without_the_tools_of_postgresql_the_command_names_them(
    run, postgres, tmp_path, monkeypatch
):
    url = postgres.create()
    monkeypatch.setenv("PATH", str(tmp_path))
    end = run("backup", tmp_path / "one.backup", url=url, folder=tmp_path, check=False)
    assert end.returncode == 1
    assert "pg_dump" in end.stderr
    postgres.drop(url)
