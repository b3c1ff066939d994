"""Health checks while the kernels are compiled: alive, not ready, and the reason."""

import socket
import threading
from http import HTTPStatus
from typing import Any, Final

import uvicorn

from service.processes.kernels import ensure_compiled, is_compiled
from service.settings import Settings

_REASON: Final = "are being compiled, which takes about a minute after an installation"
_RETRY_AFTER_S: Final = 10
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: What a browser shows meanwhile; it asks again by itself.
_PAGE: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="{_RETRY_AFTER_S}">
<title>Sibling starts</title>
<main>
<h1>Sibling starts</h1>
<p>The kernels {_REASON}. This page opens by itself then.</p>
</main>
</html>
"""


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
    from fastapi import FastAPI, Request
    from fastapi.responses import HTMLResponse

    from service.errors.problems import Problem, install_handlers
    from service.observability.readiness import ReadinessMonitor
    from service.server.health_routes import router
    from service.ui.error_pages import is_browser

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    install_handlers(app)
    app.include_router(router)
    app.state.readiness = ReadinessMonitor({"the kernels": lambda: _REASON}, warnings={})
    app.state.readiness.start()

    @app.api_route("/{path:path}", methods=list(_METHODS))
    async def refuse(request: Request) -> HTMLResponse:
        headers = {"Retry-After": str(_RETRY_AFTER_S)}
        if is_browser(request):
            return HTMLResponse(_PAGE, HTTPStatus.SERVICE_UNAVAILABLE, headers)
        raise Problem("unavailable", f"the kernels {_REASON}; try again later", headers=headers)

    return app
