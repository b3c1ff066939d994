"""Too large and aborted uploads to a real server, which must store nothing of them."""

import http.client
import socket
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.slow  # large files

MB = 1_000_000
#: Many chunks of the database, and more than socket buffers.
LIMIT_MB = 100


@pytest.fixture(scope="module")
def uploads(launch_service, uploads_to):
    with launch_service(SIBLING_MAX_UPLOAD_BYTES=LIMIT_MB * MB) as service:
        yield uploads_to(service)


def left_in_database(uploads) -> dict[str, int]:
    return {name: len(rows) for name, rows in uploads.traces().items() if rows}


def test_an_aborted_upload_leaves_nothing(uploads, wait_until):
    address = urlsplit(uploads.service.url)
    with socket.create_connection((address.hostname, address.port)) as sender:
        head = "POST /v1/datasets?name=d HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
        sender.sendall(f"{head}Content-Length: 90000000\r\n\r\n".encode() + b"a" * 20 * MB)
        wait_until(lambda: left_in_database(uploads).get("chunks", 0) > 2)
    wait_until(lambda: left_in_database(uploads) == {})


@pytest.mark.parametrize("has_length", [True, False])
def test_a_body_above_the_limit_is_rejected(uploads, wait_until, has_length):
    """With Content-Length it is rejected unread; without, when it exceeds the limit."""
    address = urlsplit(uploads.service.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=240)
    connection.putrequest("POST", "/v1/datasets?name=d")
    connection.putheader("Content-Type", "text/csv")
    if has_length:
        connection.putheader("Content-Length", str((LIMIT_MB + 1) * MB))
        connection.endheaders()
    else:
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        send_until_refused(connection, (LIMIT_MB + 1) * MB)
    response = connection.getresponse()
    assert response.status == 413
    assert b"body-too-large" in response.read()
    connection.close()
    wait_until(lambda: left_in_database(uploads) == {})


def send_until_refused(connection, n_bytes):
    piece = b"%x\r\n" % MB + b"a" * MB + b"\r\n"
    for _ in range(n_bytes // MB):
        connection.send(piece)
