"""SIGTERM ends a server with all that belongs to it, and nothing is reported as left behind."""

import time

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
