"""The demo, run as a user would."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

pytestmark = pytest.mark.slow  # the demo

#: The demo takes about ten seconds of one core, and longer on a busy machine.
SHOW_TIMEOUT_S = 240
STOP_TIMEOUT_S = 120


@pytest.fixture
def demo(tmp_path):
    """Process of the demo, with its temporary files in the folder of the test."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SIBLING_")}
    with subprocess.Popen(
        [sys.executable, "-m", "sibling", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=env | {"TMPDIR": str(tmp_path), "COLUMNS": "200"},
    ) as process:
        watchdog = threading.Timer(SHOW_TIMEOUT_S, process.kill)
        watchdog.start()
        yield process
        watchdog.cancel()
        process.kill()


def assert_ends_cleanly(demo, number, folder):
    """End the demo with a signal, and check that no process or file is left."""
    children = psutil.Process(demo.pid).children(recursive=True)
    assert children
    demo.send_signal(number)
    output = demo.communicate(timeout=STOP_TIMEOUT_S)[0]
    assert demo.returncode == 0, output
    assert "Stopped." in output
    assert "Traceback" not in output
    _, left = psutil.wait_procs(children, timeout=60)
    assert not left
    assert list(folder.glob("sibling-demo-*")) == []


@pytest.mark.timeout(400)
def test_the_demo_prints_its_report_and_stops_at_ctrl_c(demo, tmp_path):
    shown = ""
    while "Stop with Ctrl-C" not in shown:
        line = demo.stdout.readline()
        assert line, f"the demo ended early:\n{shown}"
        shown += line
    assert re.search(r"together: RMT-PCA\s+\d+\.\d%", shown)
    assert re.search(r"Learning together helps: \+\d+\.\d%", shown)
    assert "Traceback" not in shown
    assert_ends_cleanly(demo, signal.SIGINT, tmp_path)


def test_the_demo_cleans_up_when_it_is_terminated_early(demo, tmp_path):
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while not list(tmp_path.glob("sibling-demo-*/sibling.db")) and time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            demo.wait(0.1)
    assert_ends_cleanly(demo, signal.SIGTERM, tmp_path)
