"""Health checks while the kernels are compiled: alive, not ready, and the reason."""

import socket
import threading
from typing import Any, Final

import uvicorn

from service.processes.kernels import ensure_compiled, is_compiled
from service.settings import Settings

_REASON: Final = "are being compiled, which takes about a minute after an installation"
_RETRY_AFTER_S: Final = 10
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


def serve_until_compiled(listener: socket.socket, settings: Settings) -> None:
    """Have the kernels compiled, unless they are, and answer at a socket meanwhile.

    The socket goes on listening: the service answers clients that connect in between.
    """
    if is_compiled():
        return
    config = uvicorn.Config(
        _app(),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_certfile=settings.tls_cert_file,
        ssl_keyfile=settings.tls_key_file,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    def compile_kernels() -> None:
        ensure_compiled()
        server.should_exit = True

    threading.Thread(target=compile_kernels, name="compile", daemon=True).start()
    server.run(sockets=[listener.dup()])  # a signal ends this process, and all that compile


def _app() -> Any:
    # imported late: the supervisor of several processes does not need them
    from fastapi import FastAPI

    from service.errors.problems import Problem, install_handlers
    from service.observability.readiness import ReadinessMonitor
    from service.server.health_routes import router

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    install_handlers(app)
    app.include_router(router)
    app.state.readiness = ReadinessMonitor({"the kernels": lambda: _REASON}, warnings={})
    app.state.readiness.start()

    @app.api_route("/{path:path}", methods=list(_METHODS))
    async def refuse(path: str) -> None:
        del path
        detail = f"the kernels {_REASON}; try again later"
        raise Problem("unavailable", detail, headers={"Retry-After": str(_RETRY_AFTER_S)})

    return app
