"""Large uploads are streamed, so the server needs little memory."""

import io
import threading
import zipfile

import httpx
import numpy as np
import psutil
import pytest

from tests.written import written

pytestmark = pytest.mark.slow  # large files

MIB = 2**20
BODY_BYTES = 160 * MIB
#: Maximum growth of the server's memory during an upload of 160 MiB.
GROWTH_BYTES = 64 * MIB
ANSWER_S = 1.0
UPLOAD_S = 60


@pytest.fixture
def uploads(start_service, uploads_to):
    return uploads_to(start_service(SIBLING_INGEST_WAIT_S=0))


def npz_stream(size):
    """Yield a valid .npz of about this size in chunks."""
    n_rows = size // (256 * 8)
    block = np.random.default_rng(0).normal(size=(512, 256)).tobytes()
    sink = _Sink()
    with (
        zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive,
        archive.open("t/X.npy", "w", force_zip64=True) as member,
    ):
        member.write(
            written(
                np.lib.format.write_array_header_1_0,
                {"descr": "<f8", "fortran_order": False, "shape": (n_rows, 256)},
            )
        )
        left = n_rows * 256 * 8
        while left:
            member.write(block[:left])
            left -= min(left, len(block))
            yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """Writable buffer whose content can be removed."""

    def __init__(self) -> None:
        self._parts = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self._parts += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self._parts)
        self._parts.clear()
        return data


class _Peak(threading.Thread):
    """Thread that measures the memory of a process every few milliseconds."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process = psutil.Process(pid)
        self._stop_requested = threading.Event()
        self.before = self.peak = self._process.memory_info().rss

    def run(self) -> None:
        while not self._stop_requested.wait(0.005):
            self.peak = max(self.peak, self._process.memory_info().rss)

    def end(self) -> int:
        self._stop_requested.set()
        self.join()
        return self.peak - self.before


def warm(uploads) -> None:
    """Upload something small, so that later growth is due to the size of the upload."""
    dataset_id = uploads.post(b"task,a\ns,1\n").json()["id"]
    assert uploads.get(dataset_id, wait=30).json()["state"] == "ready"


def test_an_upload_of_160_mib_needs_less_than_64_mib_and_does_not_block_others(
    uploads, stopwatch, record_property
):
    warm(uploads)
    peak = _Peak(uploads.service.process.pid)
    peak.start()
    delays, done = [], threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=uploads.service.url, timeout=240) as http:
            while not done.wait(0.05):
                response_s = stopwatch()
                assert http.get("/v1/datasets").status_code == 200
                delays.append(response_s())

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    elapsed_s = stopwatch()
    response = uploads.post(npz_stream(BODY_BYTES), "application/x-npz")
    uploaded_s = elapsed_s()
    done.set()
    asker.join()
    assert response.status_code == 202
    dataset_id = response.json()["id"]
    while (state := uploads.get(dataset_id, wait=45).json()["state"]) in ("uploaded", "ingesting"):
        pass
    ready_s = elapsed_s()
    growth = peak.end()
    record_property("growth_mib", growth / MIB)
    print(  # noqa: T201 - shown with -s, for measurements
        f"\nupload {uploaded_s:.1f} s, ready {ready_s:.1f} s, growth {growth / MIB:.0f} MiB, "
        f"slowest of {len(delays)} responses {max(delays):.3f} s"
    )
    assert state == "ready"
    assert growth < GROWTH_BYTES
    assert ready_s < UPLOAD_S
    assert len(delays) > 5
    assert max(delays) < ANSWER_S


def test_the_stream_is_an_npz():
    body = b"".join(npz_stream(MIB))
    with np.load(io.BytesIO(body)) as arrays:
        assert arrays["t/X"].shape == (MIB // 2048, 256)
