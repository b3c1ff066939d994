"""SIGTERM ends a server with all that belongs to it, and nothing is reported as left behind.

So does Ctrl-C, and either may come before the server has started.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from sibling import Client

pytestmark = pytest.mark.slow  # servers of its own

STOP_TIMEOUT_S = 120
DASK_TIMEOUT_S = 10  # for which Dask waits when its process exits, in vain


def test_sigterm_leaves_no_semaphores_and_exits_with_0(launch_on):
    """The resource tracker of Python reports semaphores when it ends, last of all processes."""
    with launch_on("", SIBLING_WORKER_SLOTS=1) as service:
        with Client(service.url) as client:
            dataset = client.upload({"a": np.eye(4), "b": np.eye(4)}, name="d")
            client.train(dataset, "pca", model="m", k=1).wait()
        family = psutil.Process(service.process.pid).children(recursive=True)
        service.process.terminate()
        assert service.process.wait(STOP_TIMEOUT_S) == 0
        _, alive = psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
        assert alive == []
        assert "leaked" not in service.log()
        assert "Traceback" not in service.log()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_ends_a_server_and_its_workers_and_prints_no_traceback(launch_on, workers):
    """A terminal sends it to all processes, which each would print one."""
    with launch_on("", SIBLING_WORKER_SLOTS=2, SIBLING_WORKERS=workers) as service:
        family = psutil.Process(service.process.pid).children(recursive=True)
        for process in (service.process, *family):
            process.send_signal(signal.SIGINT)
        assert service.process.wait(STOP_TIMEOUT_S) == 0
        _, alive = psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
        assert alive == []
        assert "Traceback" not in service.log()


def test_a_worker_that_does_not_respond_is_killed_and_not_waited_for(launch_on, wait_until):
    with launch_on("", SIBLING_WORKER_SLOTS=1) as service:
        family = psutil.Process(service.process.pid).children(recursive=True)
        for process in family:
            if "spawn_main" in " ".join(process.cmdline()):
                process.suspend()
        service.process.terminate()
        wait_until(lambda: "Finished server process" in service.log())
        start = time.monotonic()
        assert service.process.wait(STOP_TIMEOUT_S) == 0
        assert time.monotonic() - start < DASK_TIMEOUT_S
        _, alive = psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
        assert alive == []
        assert "leaked" not in service.log()


@pytest.fixture
def ends_at_once(tmp_path, guard, wait_until):
    """``ends_at_once(number, command, is_time, **env)``: a signal ends it with one line and 0."""

    def check(number, command, is_time, **env):
        environment = {**os.environ, "SIBLING_DATA_DIR": str(tmp_path), **env}
        log = tmp_path / "log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [sys.executable, "-m", "sibling", *command],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,
            ) as process,
            guard(process.pid),
        ):
            wait_until(lambda: is_time(process))
            os.killpg(process.pid, number)  # as a terminal does
            out, _ = process.communicate(timeout=STOP_TIMEOUT_S)
        assert (process.returncode, out) == (0, b""), log.read_text()
        events = [json.loads(line) for line in log.read_text().splitlines()]
        (stopped,) = (event for event in events if event["event"] == "start.stopped")
        assert stopped["signal"] == number.name

    return check


SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_two_processes_start_is_no_failure(ends_at_once, number, tmp_path):
    def is_time(_process):
        return "Started parent process" in (tmp_path / "log").read_text()

    ends_at_once(number, ["serve", "--port", "0"], is_time, SIBLING_WORKERS="2")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_modules_are_imported_is_no_failure(ends_at_once, number):
    def is_time(process):
        return "pydantic_core" in Path(f"/proc/{process.pid}/maps").read_text()

    ends_at_once(number, ["serve", "--port", "0"], is_time)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_the_first_migration_is_no_failure(ends_at_once, number, tmp_path):
    def is_time(_process):
        return (tmp_path / "sibling.db").exists()

    ends_at_once(number, ["serve", "--port", "0"], is_time)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_worker_waits_for_its_scheduler_is_no_failure(ends_at_once, number):
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        url = f"tcp://127.0.0.1:{scheduler.getsockname()[1]}"

        def is_time(_process):
            return select.select([scheduler], [], [], 0)[0] != []

        ends_at_once(number, ["worker"], is_time, SIBLING_SCHEDULER_URL=url)
