"""Local copies of blobs: right, whatever ended the process that made them."""

import hashlib
import os
import signal
import subprocess
import sys

import pytest

from algorithms.interface.files import PARTIAL, replaced_file
from service.storage.blobs import BlobStore

pytestmark = pytest.mark.sql

#: Writes a copy of a blob, and stops before a step: open, write, flush, close or rename.
WRITE_AND_STOP = """
import os, pathlib, signal, sys
from service.storage.blobs import BlobStore
from service.storage.database import Database
url, folder, blob_id, sha256, step = sys.argv[1:]
def stop(event, arguments):
    is_step = {
        "open": event == "open" and str(arguments[0]).endswith(".part"),
        "rename": event == "os.rename",
        "sync": event == "os.fsync",
    }[step]
    if is_step:
        os.kill(os.getpid(), signal.SIGKILL)
fsync = os.fsync
def audited(descriptor):
    sys.audit("os.fsync", descriptor)
    fsync(descriptor)
os.fsync = audited
store = BlobStore(Database(url), pathlib.Path(folder), cache_bytes=10**9)
sys.addaudithook(stop)
store.path(blob_id, sha256)
"""


@pytest.fixture
def blobs(database, tmp_path):
    return BlobStore(database, tmp_path / "cache", cache_bytes=10**9)


@pytest.fixture
def blob(database, blobs, tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(5_000_000))
    with database.write() as session:
        return blobs.put_file(session, tmp_path / "file")


def is_right(path, blob):
    return hashlib.sha256(path.read_bytes()).hexdigest() == blob.sha256


@pytest.mark.parametrize("kept", [0, 1000, 4_999_999])
def test_a_copy_of_another_size_is_made_again(blobs, blob, kept):
    path = blobs.path(blob.id, blob.sha256)
    os.truncate(path, kept)
    assert is_right(blobs.path(blob.id, blob.sha256), blob)


def test_a_copy_is_used_again(blobs, blob):
    first = blobs.path(blob.id, blob.sha256).stat().st_ino
    assert blobs.path(blob.id, blob.sha256).stat().st_ino == first


@pytest.mark.slow
@pytest.mark.parametrize("step", ["open", "sync", "rename"])
def test_a_kill_before_any_step_leaves_no_wrong_copy(database, blobs, blob, tmp_path, step):
    cache = tmp_path / "cache"
    arguments = [database.url, str(cache), blob.id, blob.sha256, step]
    ended = subprocess.run([sys.executable, "-c", WRITE_AND_STOP, *arguments], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert all(path.suffix == PARTIAL for path in cache.iterdir())
    assert is_right(blobs.path(blob.id, blob.sha256), blob)


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(os, "fsync", lambda _: steps.append((tmp_path / "file").exists()))
    with replaced_file(tmp_path / "file") as partial:
        partial.write_bytes(b"new")
    assert steps == [False]
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_pipe_is_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR)  # waits for no writer
    with replaced_file(tmp_path / "pipe") as file:
        file.write_bytes(b"new")
    assert (tmp_path / "pipe").is_fifo()
    assert os.read(reader, 9) == b"new"
    os.close(reader)


def test_a_file_that_cannot_be_written_keeps_its_contents(tmp_path):
    (tmp_path / "file").write_bytes(b"old")

    def write():
        with replaced_file(tmp_path / "file") as partial:
            partial.write_bytes(b"ne")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}
