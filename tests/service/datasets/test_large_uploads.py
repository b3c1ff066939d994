"""Large and broken uploads to a real server, which must keep nothing of them."""

import http.client
import socket
import sqlite3
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

MB = 1_000_000


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
