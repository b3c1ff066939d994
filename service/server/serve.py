"""Start of the server: checks, socket, uvicorn processes."""

import asyncio
import contextlib
import ctypes
import errno
import gc
import multiprocessing
import os
import resource
import signal
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

import uvicorn
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp

from service.access.bootstrap import ensure_bootstrap_key
from service.observability.logs import configure_logs
from service.observability.metrics import SHARED_DIRECTORY
from service.observability.tracing import missing_package, start_tracing
from service.processes.lifetime import set_parent_death_signal
from service.processes.stops import (
    STOP_SIGNALS,
    end_at_signals,
    keep_interrupts_from_children,
    log_stop,
    noted_signals,
)
from service.server.warming import serve_until_compiled
from service.settings import MIB, Settings
from service.storage.migration import SchemaMismatch, open_database

#: Time that open streams have to end when the server stops.
STOP_TIMEOUT_S: Final = 3
#: Time after which uvicorn replaces a worker that does not respond. Long, since a worker that
#: computes may not respond for seconds on a busy machine; it also delays the detection of a worker
#: that dies during a check.
_HEALTHCHECK_S: Final = 15
_RETRY_S: Final = 0.05
#: Parameters of mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
#: Larger than the arrays of a request with a thousand rows, smaller than a chunk of an upload.
_LARGE_BYTES: Final = 5 * MIB // 2
#: Larger than all smaller buffers that such a request needs at a time.
_KEPT_BYTES: Final = 13 * MIB


def run(settings: Settings) -> None:
    """Run the server until a signal stops it.

    Parameters
    ----------
    settings
        Settings of the environment; each server process reads them again.
    """
    configure_logs(settings.log_level)
    end_at_signals()
    _preflight(settings)
    _allow_many_connections()
    # uvicorn's supervisor returns at a signal as after a failure; a single process ends itself
    signals: AbstractContextManager[list[int]] = nullcontext([])
    if settings.workers > 1:
        signals = noted_signals()
        keep_interrupts_from_children()
    with (
        _listener(settings) as listener,
        _shared_metrics(settings.workers),
        signals as stopped,
    ):
        serve_until_compiled(listener, settings)
        announced = threading.Event()
        scheme = "http" if settings.tls_cert_file is None else "https"
        arguments = (listener, scheme, announced)
        announce = threading.Thread(target=_announce, args=arguments, daemon=True)
        announce.start()
        uvicorn.run(
            "service.server.serve:create_server_app",
            factory=True,
            fd=listener.fileno(),
            workers=settings.workers,
            loop="service.server.serve:new_event_loop",
            http="service.server.connections:Connection",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=settings.trusted_proxies,
            ssl_certfile=settings.tls_cert_file,
            ssl_keyfile=settings.tls_key_file,
            timeout_keep_alive=settings.keep_alive_timeout_s,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
            timeout_worker_healthcheck=_HEALTHCHECK_S,
        )
    if announced.is_set():
        return
    if not stopped:
        sys.exit("error: the service did not start; see the log above")
    log_stop(stopped[0])


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of a server process, and let signals end the process normally.

    uvicorn raises the signal again once it has stopped, and this is the last moment before it saves
    the signal handlers. Other handlers would end the process without its exit functions, which
    release the semaphores of Dask's processes, among others.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def create_server_app() -> ASGIApp:
    """Return the application of one server process, with limits and the fast path in front."""
    gc.disable()  # until the start of the service: imports make many objects, none of them garbage
    # imported late: the supervisor of several processes does not need them
    from service.server.app import HANDLERS, create_app
    from service.server.fast_path import FastPath
    from service.server.path_prefix import PathPrefix
    from service.server.request_limits import RequestLimits
    from service.server.traced import TracedApp

    settings = Settings()
    configure_logs(settings.log_level)
    _return_large_buffers()
    supervisor = multiprocessing.parent_process()
    if supervisor is not None and supervisor.pid is not None:
        set_parent_death_signal(supervisor.pid, signal.SIGTERM)
    app = create_app(settings)
    serve: ASGIApp = FastPath(app, HANDLERS)
    if settings.tracing:
        start_tracing("server")
        serve = TracedApp(serve)
    limited = RequestLimits(serve, app)
    if not (settings.root_path or settings.trusted_proxies):
        return limited
    return PathPrefix(limited, settings, [route.path for route in app.state.routes])


@contextmanager
def _shared_metrics(workers: int) -> Iterator[None]:
    """Share metrics between several processes, in temporary files."""
    if workers == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="sibling-metrics-") as directory:
        os.environ[SHARED_DIRECTORY] = directory
        yield


def _return_large_buffers() -> None:
    """Tune the C library to return large buffers to the system at once, and to keep small ones.

    By default it raises its threshold with the first chunk of an upload, and keeps later chunks in
    an arena per thread: a 300 MB upload left the server 70 MB larger. It also returns the last
    small buffers, and getting new memory takes longer than computing a request.
    """
    with contextlib.suppress(AttributeError, OSError):  # not every C library has mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 2)


def _preflight(settings: Settings) -> None:
    """Exit with a message if the service cannot start; uvicorn would print a traceback."""
    _check_certificate(settings)
    missing = missing_package() if settings.tracing else None
    if missing is not None:
        sys.exit(f"error: SIBLING_TRACING is set, but it needs {missing}")
    try:
        database = open_database(settings)
        has_key = ensure_bootstrap_key(database, settings)
        database.close()
    except (SchemaMismatch, SQLAlchemyError, OSError) as error:
        reason = str(getattr(error, "orig", error)).strip()
        sys.exit(f"error: the database cannot be used: {reason}")
    if settings.requires_keys() and not has_key:
        alternative = (
            "or unset SIBLING_REQUIRE_KEYS"
            if settings.is_local()
            else "listen on 127.0.0.1, or set SIBLING_ALLOW_OPEN_NETWORK=true to allow requests "
            "without a key"
        )
        reason = (
            "the key in SIBLING_BOOTSTRAP_KEY is revoked or expired"
            if settings.bootstrap_key.get_secret_value()
            else "none is valid"
        )
        sys.exit(
            f"error: requests need an API key, but {reason}; create one with 'sibling keys "
            f"create', set SIBLING_BOOTSTRAP_KEY to a new one, {alternative}"
        )


def _check_certificate(settings: Settings) -> None:
    """Exit with a message if the certificate of HTTPS cannot be used."""
    if settings.tls_cert_file is None:
        if settings.tls_key_file is not None:
            sys.exit("error: SIBLING_TLS_KEY_FILE is set, but SIBLING_TLS_CERT_FILE is not")
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
    except (OSError, ssl.SSLError) as error:
        sys.exit(f"error: the certificate in {settings.tls_cert_file} cannot be used: {error}")


def _allow_many_connections() -> None:
    """Raise the limit of open files of this process to the maximum that the system allows it.

    Each connection is an open file. The default of 1024 is a limit for programs that use select().
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(listener: socket.socket, scheme: str, announced: threading.Event) -> None:
    """Print the URL once a server process accepts connections."""
    address = listener.getsockname()
    while not announced.wait(_RETRY_S):
        with contextlib.suppress(OSError), socket.create_connection(address[:2]):
            announced.set()
    host, port = address[:2]
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    sys.stdout.write(f"Sibling is at {url} - pages at {url}/, API docs at {url}/docs\n")
    sys.stdout.flush()


def _listener(settings: Settings) -> socket.socket:
    """Return a bound socket that does not listen yet; of a free port if the default is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # uvicorn does not set this for a socket that it gets as a file descriptor; without it, the
    # body of a response waits for the acknowledgement of its headers
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        if "port" in settings.model_fields_set:
            taken = f"port {settings.port} is taken"
            choose = "choose another with --port or SIBLING_PORT, or 0 for a free one"
            sys.exit(f"error: {taken}; {choose}")
        listener.bind((settings.host, 0))
    return listener
