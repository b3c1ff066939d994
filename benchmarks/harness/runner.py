"""Each benchmark runs in a process of its own with a time limit.

    python -m benchmarks.harness.runner NAME FORM OUTPUT [DATA]

is that process; it writes its blocks, or the reason why it has none, as JSON.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from benchmarks.harness import machine
from benchmarks.harness.benchmark import Benchmark
from benchmarks.harness.catalogue import BENCHMARKS
from benchmarks.harness.context import Context, Skipped
from benchmarks.harness.results import Block, Form, Problem, Run


class _Output(BaseModel):
    blocks: tuple[Block, ...] = ()
    skipped: str = ""


def run(benchmark: Benchmark, form: Form, data: Path | None) -> Run | Problem:
    """Return the run of a benchmark, or why it has no result."""
    now = machine.machine()
    started = time.monotonic()
    limit_s = benchmark.limit_s if form == "full" else benchmark.quick_limit_s
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.json"
        reason = _run_child([benchmark.name, form, str(output), *_argument(data)], limit_s)
        found = _Output.model_validate_json(output.read_bytes()) if not reason else _Output()
    date = datetime.now(UTC).date().isoformat()
    if reason or found.skipped:
        return Problem(form=form, date=date, reason=reason or found.skipped)
    return Run(
        command=benchmark.command(form),
        date=date,
        commit=machine.commit(),
        seconds=round(time.monotonic() - started, 1),
        machine=now,
        versions=machine.versions(),
        blocks=found.blocks,
    )


def _argument(data: Path | None) -> list[str]:
    return [] if data is None else [str(data.resolve())]


def _run_child(arguments: list[str], limit_s: float) -> str:
    """Return why the child process failed; empty if it did not."""
    command = [sys.executable, "-m", "benchmarks.harness.runner", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    # its standard output is shown as it comes
    with subprocess.Popen(command, env=environment, start_new_session=True) as child:
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"took longer than {limit_s:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    return f"failed with exit code {status}" if status else ""


def main() -> None:
    """Run one benchmark in this process."""
    name, form, output, *data = sys.argv[1:]
    context = Context(is_quick=form == "quick", data=Path(data[0]) if data else None)
    try:
        found = _Output(blocks=BENCHMARKS[name].run(context))
    except Skipped as reason:
        found = _Output(skipped=f"skipped: {reason}")
    Path(output).write_text(found.model_dump_json(), encoding="utf-8")


if __name__ == "__main__":
    main()
