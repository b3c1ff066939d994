"""Processes that a request leaves behind, and how requests end."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from service.processes.supervision import (
    TIMED_OUT,
    ProcessLimits,
    Program,
    SupervisedProcess,
    bare_environment,
)

TIMEOUT_S = 0.2
#: A daemon ends by itself after this time; a request that waits for it takes as long.
DAEMON_S = 30
PROGRAM = f"""
import os, signal, subprocess, sys, time
from service.processes.requests import connect, in_fork, serve

def run(request, wire):
    reader, writer = os.pipe()
    if request["how"] == "program":
        command = [sys.executable, "-c", "import time; time.sleep({DAEMON_S})"]
        pid = subprocess.Popen(command, start_new_session=True).pid
        os.write(writer, str(pid).encode())
    elif request["how"] != "none" and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:  # nobody's child, with the connection and the output of its parents
            os.write(writer, str(os.getpid()).encode())
            time.sleep({DAEMON_S})
        os._exit(0)
    pid = int(os.read(reader, 20)) if request["how"] != "none" else os.getpid()
    wire.send({{"type": "progress", "progress": pid}})
    if request["then"] == "goes on":
        time.sleep({DAEMON_S})
    while request["then"] == "prints":
        print("x" * 1000, flush=True)
    if request["then"] == "dies":
        time.sleep(2 * {TIMEOUT_S})  # until the progress has been read
        os.kill(os.getpid(), signal.SIGSEGV)
    return {{"type": "done", "pid": pid}}

serve(connect(), in_fork(run) if __name__ == "__main__" and "FORKS" in os.environ else run)
"""


@pytest.fixture(params=["itself", "fork"])
def program(request, tmp_path):
    """A program that runs requests itself, or each in a fork."""
    (tmp_path / "leaves_daemons.py").write_text(PROGRAM)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    forks = {"FORKS": "1"} if request.param == "fork" else {}
    return Program("leaves_daemons", bare_environment() | {"PYTHONPATH": path} | forks)


@pytest.fixture
def process():
    process = SupervisedProcess()
    yield process
    process.close()


@pytest.mark.parametrize("how", ["daemon", "program"])
@pytest.mark.parametrize(
    "then",
    [
        "goes on",
        pytest.param("dies", marks=pytest.mark.slow),  # waits for processes to end
        pytest.param("succeeds", marks=pytest.mark.slow),
    ],
)
@pytest.mark.quick(1)
def test_no_process_outlives_the_request_that_started_it(
    process, program, stopwatch, wait_until, how, then
):
    daemons = []
    process.warm_up(program)
    elapsed_s = stopwatch()
    end = process.run(
        program,
        {"how": how, "then": then},
        ProcessLimits(1 if then == "goes on" else DAEMON_S),
        beat_s=TIMEOUT_S,
        on_beat=lambda progress, _: daemons.append(progress) if progress else None,
    )
    assert elapsed_s() < DAEMON_S / 2
    assert (end.stopped == TIMED_OUT) == (then == "goes on")
    if then == "succeeds":
        daemons.append(end.answer["pid"])
    wait_until(lambda: not psutil.pid_exists(daemons[0]), seconds=DAEMON_S / 2)


@pytest.mark.quick(1)
def test_a_process_without_others_is_used_again(process, program):
    pids = {process.warm_up(program) for _ in range(3)}
    for _ in range(2):
        end = process.run(program, {"how": "none", "then": "succeeds"}, ProcessLimits(DAEMON_S))
        assert end.answer["type"] == "done"
        pids.add(process.warm_up(program))
    assert len(pids) == 1


@pytest.mark.slow  # waits for processes to end
def test_a_close_ends_the_request_that_runs_also_while_it_prints(process, program):
    for _ in range(5):  # without a lock, it failed in two of five
        has_begun = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            end = pool.submit(
                process.run,
                program,
                {"how": "none", "then": "prints"},
                ProcessLimits(DAEMON_S),
                beat_s=TIMEOUT_S,
                on_beat=lambda progress, _, begun=has_begun: begun.set() if progress else None,
            )
            has_begun.wait()
            process.close()
            assert end.result()[:2] == (None, -signal.SIGKILL)
