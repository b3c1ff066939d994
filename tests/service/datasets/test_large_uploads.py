"""Large and broken uploads to a real server, which must neither grow nor keep anything."""

import http.client
import io
import re
import socket
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

MB = 1_000_000
MAX_GROWTH_BYTES = 64 * 1024 * 1024
N_FEATURES = 125  # 1000 bytes a row


class Pipe(io.RawIOBase):
    """Takes what a zip writer writes, which cannot go back in it."""

    def __init__(self):
        self.pieces = []

    def writable(self):
        return True

    def write(self, data):
        self.pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        pieces, self.pieces = self.pieces, []
        return b"".join(pieces)


def npz(n_bytes: int) -> Iterator[bytes]:
    """Give an .npz of one task, made while it is sent."""
    pipe = Pipe()
    block = np.random.default_rng(0).normal(size=(1000, N_FEATURES))
    n_blocks = n_bytes // block.nbytes
    header = io.BytesIO()
    shape = (n_blocks * len(block), N_FEATURES)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(pipe, "w") as archive:
        with archive.open("a/X.npy", "w") as member:
            member.write(header.getvalue())
            for i in range(n_blocks):
                block[0, 0] = i
                member.write(block.tobytes())
                yield pipe.take()
        yield pipe.take()
    yield pipe.take()


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def reset_peak(pid: int) -> int:
    """Forget the peak of a process's memory; give what it uses now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_bytes(pid)


def left_in_database(data_dir: Path) -> dict[str, int]:
    with sqlite3.connect(data_dir / "sibling.db") as database:
        tables = ("datasets", "blobs", "blob_chunks")
        left = {t: database.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables}
    database.close()
    return {table: n for table, n in left.items() if n}


@pytest.fixture(scope="module")
def server(launch_service):
    with launch_service(SIBLING_SLOTS=1, SIBLING_MAX_UPLOAD_BYTES=400 * MB) as service:
        yield service


def test_the_server_does_not_grow_by_what_it_receives(server):
    """300 MB in, stored, read by the child and stored again, within 64 MB."""
    query = {"name": "large"}
    kind = {"content-type": "application/x-npz"}
    pid = server.process.pid
    with httpx.Client(base_url=server.url, timeout=60) as http:
        small = http.post("/v1/datasets", params=query, content=b"".join(npz(2 * MB)), headers=kind)
        assert small.status_code == 201
        before = reset_peak(pid)
        started = time.monotonic()
        response = http.post("/v1/datasets", params=query, content=npz(300 * MB), headers=kind)
        assert response.status_code in (201, 202), response.text
        url = response.headers.get("location")
        while (dataset := http.get(url, params={"wait": 30}).json())["state"] == "ingesting":
            pass
        growth = peak_bytes(pid) - before
        took = time.monotonic() - started
        print(f"grew by {growth / 1024**2:.1f} MiB in {took:.1f} s")  # noqa: T201
        assert dataset["state"] == "ready", dataset
        assert dataset["n_samples"] == 300_000
        assert growth < MAX_GROWTH_BYTES
        assert http.delete(url).status_code == 204
        assert http.delete(small.headers["location"]).status_code == 204
    assert left_in_database(server.data_dir) == {}
    assert not list((server.data_dir / "ingest").iterdir())


def test_a_sender_who_hangs_up_leaves_nothing(server):
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port)) as sender:
        head = "POST /v1/datasets?name=d HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
        sender.sendall(f"{head}Content-Length: 90000000\r\n\r\n".encode() + b"a" * 20 * MB)
        wait_until(lambda: left_in_database(server.data_dir).get("blob_chunks", 0) > 2)
    wait_until(lambda: left_in_database(server.data_dir) == {})


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_body_beyond_the_limit_is_refused_over_the_wire(server, is_told):
    """With its length told it is refused unread; without, once it is too long."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.putrequest("POST", "/v1/datasets?name=d")
    connection.putheader("Content-Type", "text/csv")
    if is_told:
        connection.putheader("Content-Length", str(401 * MB))
        connection.endheaders()
    else:
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        send_until_refused(connection, 401 * MB)
    response = connection.getresponse()
    assert response.status == 413
    assert b"body-too-large" in response.read()
    connection.close()
    wait_until(lambda: left_in_database(server.data_dir) == {})


def send_until_refused(connection, n_bytes):
    piece = b"%x\r\n" % MB + b"a" * MB + b"\r\n"
    for _ in range(n_bytes // MB):
        connection.send(piece)
