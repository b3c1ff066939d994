import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from algorithms.interface.tasks import Task
from algorithms.registry import load_model
from service.datasets.canonical import write_tasks
from service.jobs.worker import training
from service.jobs.worker.supervisor import Supervisor, program
from service.processes.supervision import TERM_GRACE_S, SupervisedProcess
from service.settings import Settings
from service.storage.job_states import AttemptCommand

GRACE_S = 0.5
#: Starting a child, or a heartbeat on a busy machine.
SLACK_S = 2.0
#: For one child or its end on a busy machine; far below the minutes of a fit.
SOON_S = 20.0


@contextlib.contextmanager
def supervise(folder, grace_s):
    supervisor = Supervisor(Settings(data_dir=folder, stop_grace_s=grace_s, worker_slots=1))
    supervisor.warm_up()
    yield supervisor
    supervisor.close()


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory):
    with supervise(tmp_path_factory.mktemp("data"), GRACE_S) as supervisor:
        yield supervisor


@pytest.fixture(scope="module")
def patient_supervisor(tmp_path_factory):
    """Return a supervisor that lets a fit end its step, also on a busy machine."""
    with supervise(tmp_path_factory.mktemp("data"), 600) as supervisor:
        yield supervisor


@pytest.fixture
def request_for(tmp_path):
    """Return a function that makes a training request, as an attempt does."""

    def make(rows, algorithm="rmt-pca", **params):
        tasks = [Task.from_rows(f"t{i}", X) for i, X in enumerate(rows)]
        dataset = tmp_path / f"dataset {len(list(tmp_path.iterdir()))}"
        return {
            "dataset": str(dataset),
            "manifest": write_tasks(dataset, tasks),
            "algorithm": algorithm,
            "params": params,
            "preparation": None,
            "calibration": None,
            "new_tasks": "refuse",
            "ties": "auto",
            "seed": 0,
            "plan": None,
            "artifact": str(tmp_path / "model"),
            "checkpoint": str(tmp_path / "checkpoint"),
            "checkpoint_interval_s": 60,
        }

    return make


@pytest.fixture
def small(request_for):
    rng = np.random.default_rng(0)
    return request_for([rng.normal(size=(8, 5)) for _ in range(3)], k=2)


@pytest.fixture
def long(request_for):
    """Return a request of many iterations, which would take minutes."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(40, 40)) for _ in range(60)]
    grid = [float(c) for c in np.geomspace(0.01, 1e4, 200)]
    return request_for(rows, k=5, selection="cv", grid=grid, n_folds=20, starts="many")


@pytest.fixture
def native(request_for):
    """Return a request that spends many seconds in one LAPACK call, which cannot be interrupted."""
    rng = np.random.default_rng(0)
    return request_for([rng.normal(size=(6000, 5000))], "pca", k=2)


@pytest.fixture
def run(stopwatch):
    """``outcome, heartbeats, elapsed_s = run(supervisor, request)``."""

    def run(
        supervisor,
        request,
        *,
        timeout_s=60,
        memory_mb=4096,
        threads=None,
        should_stop=lambda _: False,
        command=AttemptCommand.CANCEL,
    ):
        heartbeats = []

        def heartbeat(progress):
            heartbeats.append(progress)
            return command if should_stop(heartbeats) else AttemptCommand.CONTINUE

        elapsed_s = stopwatch()
        outcome = supervisor.run(
            request, heartbeat=heartbeat, timeout_s=timeout_s, memory_mb=memory_mb, threads=threads
        )
        return outcome, heartbeats, elapsed_s()

    return run


def test_a_request_returns_a_model_and_its_description(run, supervisor, small):
    outcome, _, _ = run(supervisor, small)
    assert outcome.kind == "succeeded"
    assert load_model(outcome.artifact).tasks == ("t0", "t1", "t2")
    assert outcome.result["methods"] == ["transform", "inverse_transform"]
    assert outcome.result["history"]["stop_reason"] == "converged"
    steps = outcome.result["history"]["steps"]
    assert len({len(column) for column in steps.values()}) == 1


@pytest.mark.slow  # processes
def test_a_child_that_returned_a_result_is_used_again(run, supervisor, small):
    run(supervisor, small)
    pid = supervisor.warm_up()
    run(supervisor, small)
    assert supervisor.warm_up() == pid


@pytest.mark.slow  # its parts have quick tests
def test_a_job_gets_the_requested_threads(run, supervisor, small):
    for threads in (2, 1):
        outcome, _, _ = run(supervisor, small, threads=threads)
        assert outcome.kind == "succeeded"
        environment = psutil.Process(supervisor._process._child.process.pid).environ()
        assert environment["OPENBLAS_NUM_THREADS"] == str(threads)
        assert environment["NUMBA_NUM_THREADS"] == str(threads)


@pytest.mark.slow  # processes
def test_a_released_fit_leaves_a_checkpoint(run, patient_supervisor, long):
    outcome, _, _ = run(patient_supervisor, long, should_stop=any, command=AttemptCommand.RELEASE)
    assert outcome.kind == "released"
    assert Path(long["checkpoint"]).stat().st_size > 0


@pytest.mark.slow  # processes
def test_invalid_data_fails_with_its_place(run, supervisor, request_for):
    rows = [np.ones((3, 4)), np.ones((1, 4))]
    outcome, _, _ = run(supervisor, request_for(rows, k=2))
    assert (outcome.kind, outcome.code) == ("failed", "invalid-data")
    assert outcome.place == {"task": "t1"}


@pytest.mark.slow  # starts a process
def test_an_unreadable_file_is_named_without_its_path(run, supervisor, small):
    outcome, _, _ = run(supervisor, {**small, "dataset": "/nowhere/at/all"})
    assert outcome.kind == "failed"
    assert "No such file or directory: 'all'" in outcome.detail
    assert "/" not in outcome.detail


@pytest.mark.slow  # starts a process
def test_an_internal_error_has_its_traceback_without_paths(run, supervisor, small):
    outcome, _, _ = run(supervisor, {**small, "params": None})
    assert (outcome.kind, outcome.code) == ("failed", "internal-error")
    assert 'File "training.py"' in outcome.detail
    assert "/" not in outcome.detail


@pytest.mark.slow  # its parts have quick tests
def test_a_child_without_file_handles_postpones_the_job(run, supervisor, small):
    plain = {**small, "algorithm": "pca"}
    assert run(supervisor, plain)[0].kind == "succeeded"
    pid = supervisor.warm_up()
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))  # it can open no other file
    outcome, _, _ = run(supervisor, plain)
    assert (outcome.kind, outcome.code) == ("postponed", "resource-shortage")
    assert outcome.detail == "the worker's machine reports: Too many open files"
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert run(supervisor, plain)[0].kind == "succeeded"


@pytest.mark.parametrize("number", ["ENOSPC", "EDQUOT", "ENOMEM", "EMFILE", "ENFILE"])
def test_lack_of_space_memory_or_file_handles_is_not_an_internal_error(monkeypatch, number):
    def run_out(*_):
        cause = OSError(getattr(errno, number), "x", "/srv/data/job_1.model")
        raise RuntimeError("could not save") from cause

    monkeypatch.setattr(training, "_run", run_out)
    detail = os.strerror(getattr(errno, number))
    assert training.run_request({}, None) == {"type": "postponed", "detail": detail}


@pytest.mark.slow
def test_progress_comes_with_the_heartbeats(run, supervisor, long):
    outcome, heartbeats, _ = run(supervisor, long, timeout_s=3)
    assert outcome.kind == "timed_out"
    progress = [b for b in heartbeats if b]
    assert len(progress) >= 3
    assert all(0 <= b["fraction"] <= 1 and np.isfinite(b["objective"]) for b in progress)
    fractions = [b["fraction"] for b in progress]
    assert fractions == sorted(fractions)


@pytest.mark.slow
def test_a_cancel_message_ends_an_iterating_fit(run, patient_supervisor, stopwatch, long):
    requested = []

    def should_stop(heartbeats):  # once it iterates: the start of the child does not count
        if any(heartbeats):
            requested.append(stopwatch())
        return bool(requested)

    pid = patient_supervisor.warm_up()
    outcome, _, _ = run(patient_supervisor, long, should_stop=should_stop)
    assert outcome.kind == "cancelled"
    assert requested[0]() < SLACK_S
    assert patient_supervisor.warm_up() == pid  # it answered, so it needed no signal


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_fit_inside_native_code_ends_within_the_grace_period(run, supervisor, native, small, how):
    run(supervisor, small)  # so that a child is ready
    started = time.monotonic()
    outcome, _, elapsed = run(
        supervisor,
        native,
        timeout_s=2 if how == "timeout" else 60,
        should_stop=lambda _: how == "cancel" and time.monotonic() > started + 2,
    )
    assert outcome.kind == {"cancel": "cancelled", "timeout": "timed_out"}[how]
    assert elapsed < 2 + GRACE_S + TERM_GRACE_S + SLACK_S


@pytest.mark.slow
def test_a_child_that_prints_without_end_is_still_watched(
    run, supervisor, small, monkeypatch, tmp_path
):
    _run_in_every_child(monkeypatch, tmp_path, "import os\nwhile True: os.write(1, b'x' * 65536)")
    outcome, heartbeats, elapsed = run(supervisor, small, should_stop=lambda beats: len(beats) >= 4)
    assert outcome.kind == "cancelled"
    assert len(heartbeats) >= 4
    assert elapsed < 4 * 0.25 + SLACK_S


@pytest.mark.slow  # starts a process
def test_a_child_that_prints_much_before_it_is_ready_does_not_block(
    run, supervisor, small, monkeypatch, tmp_path
):
    _run_in_every_child(monkeypatch, tmp_path, "import os\nos.write(2, b'x' * 2_000_000)")
    outcome, _, elapsed = run(supervisor, small)
    assert outcome.kind == "succeeded"
    assert elapsed < SOON_S


def test_a_child_that_dies_at_its_start_reports_the_cause(
    run, supervisor, small, monkeypatch, tmp_path
):
    broken = "import sys\nsys.modules['algorithms.registry'] = None"
    _run_in_every_child(monkeypatch, tmp_path, broken)
    outcome, _, elapsed = run(supervisor, small)
    assert (outcome.kind, outcome.code) == ("failed", "crashed")
    assert "algorithms.registry" in outcome.detail
    assert elapsed < SOON_S


def _run_in_every_child(monkeypatch, folder, code):
    """Run code at the start of every child that is started from now on."""
    (folder / "sitecustomize.py").write_text(code)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)


@pytest.fixture(autouse=True)
def fresh_child(request, supervisor):
    """Replace a child that was started for the code of another test."""
    is_special = "monkeypatch" in request.fixturenames
    if is_special:
        supervisor.close()
    yield
    if is_special:
        supervisor.close()


@pytest.mark.slow
def test_a_fit_beyond_its_memory_limit_fails_with_that_cause(run, supervisor, native):
    outcome, _, _ = run(supervisor, native, memory_mb=512)
    assert (outcome.kind, outcome.code) == ("failed", "out-of-memory")
    assert "512 MiB" in outcome.detail or "memory" in outcome.detail


@pytest.mark.slow
def test_memory_is_free_again_for_the_next_request(run, supervisor, native, small):
    run(supervisor, native, memory_mb=512)
    assert run(supervisor, small)[0].kind == "succeeded"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.quick(1)
def test_a_killed_child_is_lost_and_the_signal_reported(run, supervisor, long, number):
    pid = supervisor.warm_up()
    threading.Timer(1, os.kill, (pid, number)).start()
    outcome, _, elapsed = run(supervisor, long)
    assert (outcome.kind, outcome.code) == ("lost", "crashed")
    assert number.name in outcome.detail
    assert elapsed < SOON_S
    assert not psutil.pid_exists(pid)


def test_an_attempt_that_was_fenced_out_stops_and_leaves_no_file(run, supervisor, long, tmp_path):
    outcome, _, elapsed = run(supervisor, long, should_stop=lambda _: True, command=None)
    assert outcome.kind == "fenced"
    assert elapsed < SOON_S
    assert not (tmp_path / "model").exists()


def test_the_child_dies_with_its_supervisor():
    script = (
        "import sys, time\n"
        "from service.jobs.worker.supervisor import Supervisor\n"
        "from service.settings import Settings\n"
        "print(Supervisor(Settings()).warm_up(), flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    child.wait(timeout=120)


def test_a_child_that_cannot_be_started_leaves_no_open_file(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    n_before = psutil.Process().num_fds()
    with pytest.raises(FileNotFoundError) as caught:  # kept: its frames refer to the sockets
        SupervisedProcess().warm_up(program(1))
    assert psutil.Process().num_fds() == n_before
    del caught


def test_a_child_does_not_take_over_how_dask_limits_the_memory_of_its_workers(
    monkeypatch, wait_until
):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")  # Dask's default for its workers
    child = SupervisedProcess()
    try:
        process = psutil.Process(child.warm_up(program(1)))
        wait_until(process.environ)  # empty until the kernel has set up the new program
        environment = process.environ()
    finally:
        child.close()
    assert "MALLOC_TRIM_THRESHOLD_" not in environment
    assert environment["OMP_NUM_THREADS"] == "1"
