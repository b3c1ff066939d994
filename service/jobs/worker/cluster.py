"""``sibling scheduler`` and ``sibling worker``: thin over Dask's own commands."""

import asyncio
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from service.jobs.worker.tls import find_security
from service.settings import Settings

#: What helped when it was measured: no second guesses by the scheduler, little idle work.
DASK_CONFIG: Final[dict[str, Any]] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.comm.timeouts.connect": "10s",
}
_PATIENCE_S: Final = 120
_PAUSE_S: Final = 1.0


class VersionMismatch(ValueError):
    """Scheduler and worker, or scheduler and API, are of different versions of the code."""


def run_scheduler(host: str, port: int, settings: Settings) -> None:
    """Become a Dask scheduler."""
    url = f"{'tls' if settings.tls_dir else 'tcp'}://{host}:{port}"
    find_security(url, settings.tls_dir)
    _become("scheduler", "--host", url.rpartition(":")[0], "--port", str(port), settings=settings)


def run_worker(settings: Settings) -> None:
    """Become Dask workers, one process for each job at a time, of a scheduler of our version."""
    if not settings.engine_url:
        raise ValueError("name the scheduler in ENGINE_URL, such as tls://scheduler:8786")
    security = find_security(settings.engine_url, settings.tls_dir)
    _wait_for(settings.engine_url, security)
    _become(
        "worker",
        settings.engine_url,
        "--nworkers",
        str(settings.resolved_slots()),
        "--nthreads",
        "1",
        "--memory-limit",
        "0",
        "--local-directory",
        str(settings.data_dir.resolve() / "dask"),
        settings=settings,
    )


def check_version(url: str, security: Any) -> None:
    """Raise VersionMismatch unless the scheduler is of this version."""
    theirs = asyncio.run(_ask_version(url, security))
    ours = version("sibling")
    if theirs != ours:
        raise VersionMismatch(
            f"the scheduler at {url} is of version {theirs}, this is {ours}; run the same version "
            "everywhere"
        )


def _wait_for(url: str, security: Any) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            check_version(url, security)
        except OSError as error:
            if time.monotonic() > deadline:
                raise OSError(f"no scheduler answers at {url}: {error}") from error
            time.sleep(_PAUSE_S)
        else:
            return


async def _ask_version(url: str, security: Any) -> str:
    from distributed.core import rpc

    arguments = {} if security is None else security.get_connection_args("client")
    async with rpc(url, connection_args=arguments) as scheduler:
        answer: str = await scheduler.sibling_version()
    return answer


def _become(*command: str, settings: Settings) -> None:
    """Go on as Dask's command, with our settings for it."""
    # without the address its pages would be on every interface, dashboard or not
    arguments = [*command, "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    arguments += ["--preload", "service.jobs.worker.preload"]
    if settings.tls_dir is not None:
        for option, name in (("ca-file", "ca"), ("cert", "cert"), ("key", "key")):
            arguments += [f"--tls-{option}", str(settings.tls_dir.resolve() / f"{name}.pem")]
    environment = {_variable(key): str(value) for key, value in DASK_CONFIG.items()}
    dask = Path(sys.executable).with_name("dask")
    os.execve(dask, [str(dask), *arguments], {**os.environ, **environment})  # noqa: S606 - ours


def _variable(key: str) -> str:
    return "DASK_" + key.upper().replace(".", "__").replace("-", "_")
