"""Listening: a socket, a server, and a word on where it is."""

import asyncio
import contextlib
import ctypes
import errno
import gc
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import cast

import uvicorn
from sqlalchemy.exc import SQLAlchemyError

from service.access.bootstrap import ensure_bootstrap_key
from service.app import create_app, open_database
from service.crew import Crew
from service.logs import configure_logs
from service.schema import SchemaMismatch
from service.settings import MIB, Settings
from service.wire.protocol import Connection

#: Open streams get so long to end before the server stops.
STOP_TIMEOUT_S = 3
#: Of mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
#: An array of a call of a thousand rows has less, a chunk of an upload more.
_LARGE_BYTES = 5 * MIB // 2
#: A call of a model makes some hundred objects, and leaves none behind that refer to one another.
_GC_THRESHOLDS = 10_000, 10, 10


def run(settings: Settings, *, any_port: bool) -> None:
    """Serve until a signal comes.

    Parameters
    ----------
    any_port
        Take a free port where the usual one is taken.
    """
    configure_logs(settings.log_level)
    _check_ground(settings)
    listener = _listen(settings.host, settings.port, any_port=any_port)
    serve, on_start = partial(_serve, settings), partial(_announce, listener)
    if settings.server_processes == 1:
        serve(listener, on_start)
    else:
        sys.exit(Crew(settings.server_processes, listener, serve).run(on_start))


def _serve(settings: Settings, listener: socket.socket, on_start: Callable[[], None]) -> None:
    """Serve on a socket until a signal comes."""
    configure_logs(settings.log_level)
    _return_large_buffers()
    config = uvicorn.Config(
        create_app(settings),
        http=cast("type[asyncio.Protocol]", Connection),
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing here depends on who the caller says to be
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
    )
    _Server(config, on_start).run(sockets=[listener])


def _return_large_buffers() -> None:
    """Have memory of large buffers given back at once by every thread, and that of others kept.

    The C library would raise its threshold with the first chunk of an upload and keep the next ones
    in an arena for each thread: 300 MB passing through left the server 70 MB larger. Of smaller
    buffers it would give back the last, and get fresh memory for each call, which takes longer than
    to compute it.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library does it its own way
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 2)


def _spare_collections() -> None:
    """Have the garbage collector not look at what stays: modules, routes, schemas.

    It would go through all of them again and again, and calls wait meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _check_ground(settings: Settings) -> None:
    """End with a sentence where the service could not start: the server would tell a traceback."""
    try:
        database = open_database(settings)
        has_key = ensure_bootstrap_key(database, settings)
        database.close()
    except (SchemaMismatch, SQLAlchemyError, OSError) as error:
        reason = str(getattr(error, "orig", error)).strip()
        sys.exit(f"error: the database cannot be used: {reason}")
    if settings.asks_for_keys() and not has_key:
        sys.exit(
            "error: this service asks for keys and there are none, so nobody could use it; make "
            "one with 'sibling keys create', or listen on 127.0.0.1, or set "
            "SIBLING_ALLOW_OPEN_NETWORK=true to let everyone in who can reach it"
        )


class _Server(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell it."""
        await super().startup(sockets)
        _spare_collections()
        if self.started:
            self._on_start()


def _announce(listener: socket.socket) -> None:
    """Tell the address on standard output."""
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    sys.stdout.write(f"Sibling is at {url} - pages at {url}/, API docs at {url}/docs\n")
    sys.stdout.flush()


def _listen(host: str, port: int, *, any_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # the protocol is named because asyncio asks for it before it turns Nagle's delay off
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        if not any_port:
            sys.exit(f"error: port {port} is taken; name another with --port, or 0 for a free one")
        listener.bind((host, 0))
    return listener
