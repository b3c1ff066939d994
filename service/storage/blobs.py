"""Content-addressed binary data in the database: written and read as streams and files."""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from algorithms.interface.files import PARTIAL, replaced_file
from service.settings import Settings
from service.storage.blob_rows import (
    CHUNK_BYTES,
    Blob,
    add_blob,
    add_chunk,
    complete_blob,
    delete_blob,
    read_chunk,
)
from service.storage.database import Database, now
from service.storage.shortages import CACHE, shortages_in
from service.storage.tables import BlobChunkRow, BlobRow, new_id

#: Maximum size of a blob that is stored in one transaction.
MAX_SMALL_BYTES: Final = 256 * 1024
#: Age at which a partial file is considered left by a killed process.
_ABANDONED_S: Final = 3600


class BlobWriter:
    """Writer of a new blob, which is not visible until :meth:`finish`.

    Each chunk is its own transaction, so that a slow upload does not lock the database. Few bytes
    stay in memory until then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._buffer = bytearray()
        self._hash = hashlib.sha256()
        self._id = new_id("blob")
        self._position = 0
        self.size_bytes = 0

    @property
    def is_small(self) -> bool:
        """Whether all bytes are in memory."""
        return len(self._buffer) == self.size_bytes

    def held_bytes(self) -> bytes:
        """Return the bytes in memory: all of a small blob."""
        return bytes(self._buffer)

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._hash.update(data)
        self._buffer += data
        self.size_bytes += len(data)
        while len(self._buffer) >= CHUNK_BYTES:
            self._flush(CHUNK_BYTES)

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes so far."""
        return self._hash.hexdigest()

    def flush(self) -> None:
        """Store the buffered bytes, unless they are few, so that :meth:`finish` is fast."""
        if self._buffer and not (self.is_small and self.size_bytes <= MAX_SMALL_BYTES):
            self._flush(len(self._buffer))

    def finish(self, session: Session) -> Blob:
        """Complete the blob within the transaction of the session, and return it.

        If the same bytes are already stored, return that blob and delete this copy.
        """
        if self.is_small:
            data = self.held_bytes()
            return add_blob(session, self.sha256(), len(data), [data])
        if self._buffer:
            self._take(session, len(self._buffer))
        return complete_blob(session, self._id, self.sha256(), self.size_bytes)

    def discard(self) -> None:
        """Delete the stored chunks."""
        if self.is_small:
            return
        with self._database.write() as session:
            delete_blob(session, self._id)

    def _flush(self, size: int) -> None:
        with self._database.write() as session:
            if self.is_small:
                session.add(BlobRow(id=self._id, sha256=None))
                session.flush()
            self._take(session, size)
            # retention looks at the age of a partial blob, which is the age of its last chunk
            session.execute(
                sa.update(BlobRow).where(BlobRow.id == self._id).values(created_at=now())
            )

    def _take(self, session: Session, size: int) -> None:
        add_chunk(session, self._id, self._position, _first(self._buffer, size))
        del self._buffer[:size]
        self._position += 1


def _first(buffer: bytearray, size: int) -> bytes:
    """Return the first bytes of a buffer, which are copied once."""
    with memoryview(buffer) as view:
        return bytes(view[:size])


class BlobChanged(Exception):
    """Another writer has added to the blob, or it has been deleted."""


class BlobAppender:
    """Writer that continues an incomplete blob; its stored chunks survive a kill.

    Attributes
    ----------
    size_bytes
        Number of bytes of the blob, including bytes that are not yet stored.
    """

    def __init__(self, database: Database, blob_id: str) -> None:
        self._database = database
        self._id = blob_id
        with database.read() as session:
            row = session.get(BlobRow, blob_id)
            self.size_bytes = self._stored_bytes = 0 if row is None else row.size_bytes
            self._position, n_last = divmod(self.size_bytes, CHUNK_BYTES)
            last = read_chunk(session, blob_id, self._position) if n_last else b""
        self._buffer = bytearray(last or b"")  # the last chunk is written again when it has grown

    def write(self, data: bytes) -> None:
        """Add bytes.

        Raises
        ------
        BlobChanged
            The blob is not as it was before.
        """
        self._buffer += data
        self.size_bytes += len(data)
        while len(self._buffer) >= CHUNK_BYTES:
            self._store(CHUNK_BYTES)
            del self._buffer[:CHUNK_BYTES]
            self._position += 1

    def flush(self) -> None:
        """Store the buffered bytes; :class:`BlobChanged` as in :meth:`write`."""
        if self.size_bytes > self._stored_bytes:
            self._store(len(self._buffer))

    def _store(self, size: int) -> None:
        with self._database.write() as session:
            query = sa.select(BlobRow).where(BlobRow.id == self._id, BlobRow.sha256.is_(None))
            row = session.scalar(query.with_for_update())
            if row is None or row.size_bytes != self._stored_bytes:
                raise BlobChanged
            is_last = (
                BlobChunkRow.blob_id == self._id,
                BlobChunkRow.position == self._position,
            )
            session.execute(sa.delete(BlobChunkRow).where(*is_last))
            add_chunk(session, self._id, self._position, _first(self._buffer, size))
            row.size_bytes = self._position * CHUNK_BYTES + size
            row.created_at = now()
        self._stored_bytes = self._position * CHUNK_BYTES + size


class BlobStore:
    """Access to blobs as streams, or as local files that can be memory-mapped.

    Parameters
    ----------
    cache_dir
        Directory of local copies; its files may be deleted at any time.
    cache_bytes
        Maximum total size of local copies; the least recently used are deleted first.
    """

    def __init__(self, database: Database, cache_dir: Path, *, cache_bytes: int) -> None:
        self._database = database
        self._cache_dir = cache_dir
        self._cache_bytes = cache_bytes
        cache_dir.mkdir(parents=True, exist_ok=True)

    def writer(self) -> BlobWriter:
        """Return a writer of a new blob."""
        return BlobWriter(self._database)

    def appender(self, blob_id: str) -> BlobAppender:
        """Return a writer that continues a blob which is not complete."""
        return BlobAppender(self._database, blob_id)

    def sha256(self, blob_id: str) -> str:
        """Return the SHA-256 of the stored bytes of a blob."""
        digest = hashlib.sha256()
        for data in self.chunks(blob_id):
            digest.update(data)
        return digest.hexdigest()

    def put_file(self, session: Session, path: Path) -> Blob:
        """Store a file within the transaction of the session."""
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            chunks = iter(lambda: file.read(CHUNK_BYTES), b"")
            return add_blob(session, sha256, path.stat().st_size, chunks)

    def chunks(self, blob_id: str, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes of a blob, from an offset to the end, in chunks."""
        position, n_before = divmod(start, CHUNK_BYTES)
        while (data := self._chunk(blob_id, position)) is not None:
            yield data[n_before:]
            position, n_before = position + 1, 0

    def path(self, blob_id: str, sha256: str) -> Path:
        """Return the path of a local copy of a blob, created if missing or of another size.

        Raises
        ------
        OSError
            The stored bytes do not match the hash.
        """
        target = self._cache_dir / sha256
        if not self._is_copied(blob_id, target):
            with shortages_in(CACHE):
                self._fetch(blob_id, sha256, target)
            self._trim(keep=target)
        return target

    def _is_copied(self, blob_id: str, target: Path) -> bool:
        """Return whether there is a copy of the size of the blob, which is then used last."""
        with contextlib.suppress(FileNotFoundError):
            size_bytes = target.stat().st_size
            os.utime(target)
            with self._database.read() as session:
                row = session.get(BlobRow, blob_id)
            return row is None or row.size_bytes == size_bytes
        return False

    def _fetch(self, blob_id: str, sha256: str, target: Path) -> None:
        digest = hashlib.sha256()
        with replaced_file(target, mode=0o600) as partial:
            with partial.open("wb") as file:
                for data in self.chunks(blob_id):
                    digest.update(data)
                    file.write(data)
            if digest.hexdigest() != sha256:
                raise OSError(f"blob {blob_id} does not have the SHA-256 {sha256}")

    def copy(self, blob_id: str, target: Path) -> None:
        """Write the bytes of a blob to a file."""
        with target.open("wb") as file:
            file.writelines(self.chunks(blob_id))

    def _chunk(self, blob_id: str, position: int) -> bytes | None:
        with self._database.read() as session:
            return read_chunk(session, blob_id, position)

    def _trim(self, *, keep: Path) -> None:
        """Delete old copies; processes that have one mapped can still read it."""
        files = []
        for path in self._cache_dir.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process renamed or removed it
                stat = path.stat()
                if path.suffix != PARTIAL:
                    files.append((stat, path))
                elif time.time() - stat.st_mtime > _ABANDONED_S:
                    path.unlink()
        excess = sum(stat.st_size for stat, _ in files) - self._cache_bytes
        for stat, path in sorted(files, key=lambda item: item[0].st_mtime):
            if excess <= 0:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                excess -= stat.st_size


def open_blobs(database: Database, settings: Settings) -> BlobStore:
    """Return the store with local copies in the data directory of the settings."""
    cache_dir = settings.data_dir.resolve() / "cache"
    return BlobStore(database, cache_dir, cache_bytes=settings.blob_cache_bytes)
