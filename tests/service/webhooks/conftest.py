"""A receiver of webhooks: a real HTTP server in a thread of the tests."""

import base64
import contextlib
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Received:
    """A request as it has arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    def is_signed(self, secret: str) -> bool:
        """Verify the signature as the specification of Standard Webhooks says."""
        content = b".".join(
            (
                self.headers["webhook-id"].encode(),
                self.headers["webhook-timestamp"].encode(),
                self.body,
            )
        )
        key = base64.b64decode(secret.split("_", 1)[1])
        expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        versions = [part.split(",") for part in self.headers["webhook-signature"].split(" ")]
        return ["v1", expected] in versions


class Receiver:
    """A server that remembers what it gets.

    Attributes
    ----------
    respond
        Returns the status for a request, and headers; it can also wait.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.respond: Callable[[Received], int | tuple[int, dict[str, str]]] = lambda _: 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Received(self.path, headers, body)
                receiver.received.append(request)
                response = receiver.respond(request)
                status, more = response if isinstance(response, tuple) else (response, {})
                with contextlib.suppress(ConnectionError):  # the sender has given up
                    self.send_response(status)
                    for name, value in more.items():
                        self.send_header(name, value)
                    self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://localhost:{self.port}/hook"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def events(self) -> list[dict[str, Any]]:
        return [request.event for request in self.received]

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def start_receiver() -> Iterator[Callable[[], Receiver]]:
    """``receiver = start_receiver()``: a receiver at localhost, until the test ends."""
    with contextlib.ExitStack() as stack:

        def start() -> Receiver:
            return stack.enter_context(contextlib.closing(Receiver()))

        yield start


@pytest.fixture
def receiver(start_receiver: Callable[[], Receiver]) -> Receiver:
    """A receiver at localhost."""
    return start_receiver()


@pytest.fixture
def make_certificate() -> Callable[[str, Path], Path]:
    """``make_certificate(name, folder)``: a PEM file with a key and its certificate for a name."""

    def make(name: str, folder: Path) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        file = folder / "cert.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return file

    return make
