"""HTTP over bare sockets, whose bytes a test writes itself."""

import socket
import time
from http.client import HTTPMessage, parse_headers
from typing import Self
from urllib.parse import urlsplit


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


class Raw:
    """A connection to the URL of a server, or to the path of a socket."""

    def __init__(self, address: str, timeout_s: float = 240) -> None:
        url = urlsplit(address)
        if url.hostname and url.port:
            self.socket = socket.create_connection((url.hostname, url.port), timeout_s)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout_s)
            self.socket.connect(address)
        self.file = self.socket.makefile("rb")

    def send(self, *parts: bytes, pause_s: float = 0.005) -> None:
        for i, part in enumerate(parts):
            if i:
                time.sleep(pause_s)  # so that they arrive apart
            self.socket.sendall(part)

    def response(self) -> tuple[int, HTTPMessage, bytes] | None:
        """Return status, headers and body of the next response, None if there is none."""
        line = self.file.readline()
        if not line:
            return None
        headers = parse_headers(self.file)
        return int(line.split()[1]), headers, self.file.read(int(headers["content-length"] or 0))

    def is_ended(self) -> bool:
        """Wait until the server ends the connection."""
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()
