"""``sibling scheduler`` and ``sibling worker``, which run Dask's own commands."""

import asyncio
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from service.jobs.worker.tls import find_security
from service.observability.logs import configure_logs
from service.processes.stops import end_at_signals
from service.settings import Settings

#: Settings chosen by measurement: no retries or work stealing by the scheduler, less idle work.
DASK_CONFIG: Final[dict[str, Any]] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,  # it moves results between workers
    "distributed.worker.multiprocessing-method": "spawn",  # a fork would share open connections
    "distributed.worker.profile.enabled": False,
    "distributed.client.scheduler-info-interval": "1h",  # only shown in notebooks
    "distributed.admin.system-monitor.interval": "30s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "2s",
    "distributed.admin.tick.limit": "5s",
    "distributed.admin.tick.cycle": "30s",
    "distributed.comm.timeouts.connect": "10s",
}
#: Loaded by each process that starts workers.
NANNY_PRELOAD: Final = "service.jobs.worker.preload_nanny"
#: A worker does not respond if the scheduler has heard nothing of it for this time; Dask's workers
#: report every half second, or every second or two if there are many.
_MAX_SILENCE_S: Final = 5.0
#: Time after which Dask restarts a silent worker, relative to that after which its attempt is lost.
_TTL_FACTOR: Final = 1.5
#: A worker that starts on a busy machine may be silent for many seconds; restarts would not end.
_MIN_TTL_S: Final = 30.0
_CONNECT_TIMEOUT_S: Final = 120
#: Time for a scheduler to accept one connection.
_ASK_TIMEOUT_S: Final = 10
_RETRY_INTERVAL_S: Final = 1.0


class VersionMismatch(ValueError):
    """Raised when the scheduler runs another version of this package."""


def dask_config(settings: Settings) -> dict[str, Any]:
    """Return Dask's configuration.

    Dask restarts or removes a silent worker once the dispatcher has given up its attempt, which
    reports the cause.
    """
    ttl_s = max(_MIN_TTL_S, _TTL_FACTOR * settings.heartbeat_timeout_s)
    return {**DASK_CONFIG, "distributed.scheduler.worker-ttl": f"{ttl_s}s"}


def add_rpcs(server: Any) -> None:
    """Add RPCs that return the version of this package and, on a scheduler, its workers."""
    server.handlers["sibling_version"] = _version
    if hasattr(server, "workers"):

        def describe_own_workers() -> dict[str, dict[str, Any]]:  # Dask logs its name
            return describe_workers(server)

        server.handlers["sibling_workers"] = describe_own_workers


def _version() -> str:
    return version("sibling")


def describe_workers(scheduler: Any) -> dict[str, dict[str, Any]]:
    """Return slots, keys of tasks and liveness of each worker, by address.

    The scheduler compares times of its own clock only.
    """
    from distributed.core import Status
    from distributed.scheduler import heartbeat_interval

    limit_s = _MAX_SILENCE_S + 4 * heartbeat_interval(len(scheduler.workers))
    now = time.time()
    return {
        address: {
            "slots": worker.nthreads,
            "tasks": [task.key for task in worker.processing],
            "is_silent": now - worker.last_seen > limit_s,
            "is_running": worker.status == Status.running,
        }
        for address, worker in scheduler.workers.items()
    }


def run_scheduler(host: str, port: int, settings: Settings) -> None:
    """Replace this process with a Dask scheduler."""
    url = f"{'tls' if settings.tls_dir else 'tcp'}://{host}:{port}"
    find_security(url, settings.tls_dir)
    _exec_dask(
        "scheduler", "--host", url.rpartition(":")[0], "--port", str(port), settings=settings
    )


def run_worker(settings: Settings) -> None:
    """Replace this process with Dask workers, one process per slot.

    Raises
    ------
    ValueError
        There is no scheduler address, or the scheduler runs another version.
    OSError
        The scheduler did not answer in time.
    """
    if not settings.scheduler_url:
        raise ValueError(
            "set SIBLING_SCHEDULER_URL to the scheduler's address, such as tls://scheduler:8786"
        )
    security = find_security(settings.scheduler_url, settings.tls_dir)
    configure_logs(settings.log_level)
    end_at_signals()
    _wait_for(settings.scheduler_url, security)
    _exec_dask(
        "worker",
        settings.scheduler_url,
        "--nworkers",
        str(settings.resolved_worker_slots()),
        "--nthreads",
        "1",
        "--memory-limit",
        "0",
        "--local-directory",
        str(settings.data_dir.resolve() / "dask"),
        "--preload-nanny",
        NANNY_PRELOAD,
        settings=settings,
    )


def check_version(url: str, security: Any) -> None:
    """Raise VersionMismatch unless the scheduler runs this version."""
    theirs = asyncio.run(_ask_version(url, security))
    ours = version("sibling")
    if theirs != ours:
        raise VersionMismatch(
            f"the scheduler at {url} runs version {theirs}, this process {ours}; run the same "
            "version everywhere"
        )


def _wait_for(url: str, security: Any) -> None:
    deadline = time.monotonic() + _CONNECT_TIMEOUT_S
    while True:
        try:
            check_version(url, security)
        except OSError as error:
            if time.monotonic() > deadline:
                raise OSError(f"the scheduler at {url} does not answer: {error}") from error
            time.sleep(_RETRY_INTERVAL_S)
        else:
            return


async def _ask_version(url: str, security: Any) -> str:
    from distributed.core import rpc

    arguments = {} if security is None else security.get_connection_args("client")
    async with rpc(url, timeout=_ASK_TIMEOUT_S, connection_args=arguments) as scheduler:
        answer: str = await scheduler.sibling_version()
    return answer


def _exec_dask(*command: str, settings: Settings) -> None:
    """Replace this process with a Dask command."""
    # without the address, Dask serves HTTP on every interface, even without a dashboard
    arguments = [*command, "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    arguments += ["--preload", "service.jobs.worker.preload"]
    if settings.tls_dir is not None:
        for option, name in (("ca-file", "ca"), ("cert", "cert"), ("key", "key")):
            arguments += [f"--tls-{option}", str(settings.tls_dir.resolve() / f"{name}.pem")]
    environment = {_variable(key): str(value) for key, value in dask_config(settings).items()}
    dask = Path(sys.executable).with_name("dask")
    os.execve(dask, [str(dask), *arguments], {**os.environ, **environment})  # noqa: S606 - ours


def _variable(key: str) -> str:
    return "DASK_" + key.upper().replace(".", "__").replace("-", "_")
