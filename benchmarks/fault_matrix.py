"""A table of faults, and whether everything went on after each: SQLite, PostgreSQL, containers.

    python -m benchmarks.fault_matrix                        # runs the tests of all faults
    python -m benchmarks.fault_matrix --smoke smoke.log      # and reads the output of smoke.sh

Each fault is injected by tests, which run here on both databases, those marked slow included; the
column of the containers is read from the output of ``docker/smoke.sh``. A cell is ``passed`` with
the number of tests, ``failed``, ``skipped``, or ``-`` if no test injects that fault there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
JOBS = "tests/service/jobs"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault and the tests that inject it.

    Attributes
    ----------
    tests
        File and start of the name of each.
    smoke
        What smoke.sh prints once it has passed the fault.
    database
        Database of the tests that have none in their name.
    """

    name: str
    tests: tuple[str, ...]
    smoke: str = ""
    database: str = "sqlite"


FAULTS = (
    Fault(
        "the process of a job is killed",
        (
            f"{JOBS}/test_survival.py::test_a_job_whose_child_process_is_killed",
            f"{JOBS}/test_batch_survival.py::test_a_killed_process_is_replaced",
        ),
    ),
    Fault(
        "a job kills every worker",
        (f"{JOBS}/test_survival.py::test_a_job_that_kills_every_worker",),
    ),
    Fault(
        "a worker is killed",
        (
            f"{JOBS}/test_survival.py::test_a_job_whose_dask_worker_is_killed",
            f"{JOBS}/test_cluster.py::test_remote_workers_train_and_a_dead_one",
        ),
        "killed: succeeded",
    ),
    Fault(
        "a worker is stopped",
        (f"{JOBS}/test_cluster.py::test_a_stopped_worker",),
        "handed-on: succeeded",
    ),
    Fault(
        "a worker freezes",
        (
            f"{JOBS}/test_frozen_worker.py::",
            f"{JOBS}/test_faults.py::test_a_frozen_worker",
        ),
    ),
    Fault(
        "the scheduler is killed",
        (
            f"{JOBS}/test_cluster_kills.py::",
            f"{JOBS}/test_cluster.py::test_the_api_reconnects",
        ),
        "load-6: succeeded",
    ),
    Fault(
        "everything is killed",
        (
            f"{JOBS}/test_survival.py::test_a_kill_of_the_service",
            f"{JOBS}/test_batch_survival.py::test_after_a_kill_of_everything",
        ),
    ),
    Fault(
        "the service is stopped",
        (
            f"{JOBS}/test_survival.py::test_a_stopped_service",
            f"{JOBS}/test_batch_survival.py::test_a_stopped_service",
        ),
        "unattended: succeeded",
    ),
    Fault(
        "a second service takes over",
        (f"{JOBS}/test_survival.py::test_a_second_service",),
    ),
    Fault(
        "one of several API processes is killed",
        (
            "tests/service/test_server_processes.py::test_a_killed_process",
            "tests/service/test_server_processes.py::test_processes_whose_parent",
        ),
    ),
    Fault(
        "the server is killed during an upload",
        ("tests/service/datasets/test_survival.py::test_an_upload_survives",),
    ),
    Fault(
        "the database is away",
        (f"{JOBS}/test_faults.py::test_a_job_survives_an_unavailable_database",),
        "restarted: succeeded",
    ),
    Fault("the database hangs", ("tests/service/test_hung_database.py::",), database="postgresql"),
    Fault(
        "the network between worker and database fails",
        (f"{JOBS}/test_partition.py::",),
        database="postgresql",
    ),
    Fault(
        "the disk is full",
        (
            f"{JOBS}/test_faults.py::test_a_model_is_published_once_there_is_space",
            f"{JOBS}/test_faults.py::test_a_job_without_space",
        ),
    ),
    Fault(
        "a result cannot be stored",
        (f"{JOBS}/test_faults.py::test_a_result_that_cannot_be_stored",),
    ),
    Fault(
        "native code crashes, or does not stop",
        (
            f"{JOBS}/test_faults.py::test_a_segfault",
            f"{JOBS}/test_faults.py::test_a_crash",
            f"{JOBS}/test_faults.py::test_a_job_inside_native_code",
        ),
    ),
    Fault(
        "a job takes too much memory or time",
        (
            f"{JOBS}/test_faults.py::test_a_job_beyond_its_memory",
            f"{JOBS}/test_survival.py::test_a_job_beyond_its_time",
            "tests/service/datasets/test_survival.py::test_exceeding",
        ),
    ),
    Fault("the clock is set", (f"{JOBS}/test_faults.py::test_a_clock",)),
    Fault(
        "machines share a host name, or a process id is used again",
        (f"{JOBS}/test_lease.py::",),
    ),
    Fault(
        "requests are repeated",
        (f"{JOBS}/test_faults.py::test_many_requests_with_one",),
    ),
    Fault(
        "a backup is made during writes, and restored elsewhere",
        (
            "tests/service/operations/test_backup.py::test_a_backup_during",
            "tests/service/operations/test_backup.py::test_a_restored",
        ),
        "11 models",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", type=Path, help="output of docker/smoke.sh")
    options = parser.parse_args()
    smoke = options.smoke.read_text(encoding="utf-8") if options.smoke else ""
    outcomes = run_tests(sorted({t.partition("::")[0] for f in FAULTS for t in f.tests}))
    print("| Fault | SQLite | PostgreSQL | containers |")
    print("| --- | --- | --- | --- |")
    is_fine = True
    for fault in FAULTS:
        found = [one for start in fault.tests for one in outcomes_of(outcomes, start, fault)]
        cells = [cell(found, "sqlite"), cell(found, "postgresql"), container_cell(fault, smoke)]
        is_fine &= any("passed" in one for one in cells) and "failed" not in " ".join(cells)
        print(f"| {fault.name} | {' | '.join(cells)} |")
    sys.exit(0 if is_fine else 1)


def run_tests(files: list[str]) -> dict[str, str]:
    """Return the outcome of every test of some files by its file and name."""
    outcomes = {}
    for name, case in cases(files, n_processes=2, SIBLING_TEST_ALL="1").items():
        tags = {child.tag for child in case}
        is_bad = bool(tags & {"failure", "error"})
        outcomes[name] = "failed" if is_bad else "skipped" if "skipped" in tags else "passed"
    return outcomes


def cases(targets: list[str], *, n_processes: int, **env: str) -> dict[str, ET.Element]:
    """Run tests; return the report of each by its file and name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "slow or not slow", "-q"]
        command += ["-n", str(n_processes), "--dist", "worksteal", f"--junitxml={report}"]
        own = {**os.environ, **env}
        subprocess.run([*command, *targets], cwd=ROOT, env=own, check=False, stdout=sys.stderr)
        found = ET.parse(report).getroot().iter("testcase")
        return {
            f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": case
            for case in found
        }


def outcomes_of(outcomes: dict[str, str], start: str, fault: Fault) -> list[tuple[str, str]]:
    """Return database and outcome of the tests whose name starts so; it must be one at least."""
    found = [(name, outcome) for name, outcome in outcomes.items() if name.startswith(start)]
    if not found:
        raise LookupError(f"no test is called {start}")
    return [(database_of(name, fault), outcome) for name, outcome in found]


def database_of(test: str, fault: Fault) -> str:
    """Return the database of a test."""
    return next((one for one in ("postgresql", "sqlite") if one in test), fault.database)


def cell(found: list[tuple[str, str]], database: str) -> str:
    """Return what the tests on a database say."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, outcome in found:
        counts[name][outcome] += 1
    n = counts[database]
    if n["failed"]:
        return f"failed: {n['failed']} of {n.total()}"
    if n["passed"]:
        return f"passed ({n['passed']})"
    return "skipped" if n["skipped"] else "-"


def container_cell(fault: Fault, smoke: str) -> str:
    """Return whether smoke.sh came past that fault."""
    if not fault.smoke:
        return "-"
    if not smoke:
        return "not run"
    return "passed" if fault.smoke in smoke else "failed"


if __name__ == "__main__":
    main()
