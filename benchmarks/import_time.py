"""Time of ``import sibling``, compared with what it cannot do without: numpy and httpx.

Each is imported in fresh processes, in turns; the times are medians of CPU time. The
last rows are the first use of the client, and of an estimator beside scikit-learn, which it
extends.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Plot, Table

MAX_RATIO = 1.5
IMPORTS = {
    "numpy, httpx": "import numpy, httpx",
    "sibling": "import sibling",
    "sibling.Client": "from sibling import Client",
    "sklearn.base": "import sklearn.base",
    "sibling.MTFL": "from sibling import MTFL",
}
_TIMED = """
import sys, time
before, started = len(sys.modules), time.process_time()
{code}
print(time.process_time() - started, len(sys.modules) - before)
"""


def time_import(code: str) -> tuple[float, int]:
    """Return the CPU time of an import in a fresh process, in seconds, and the modules it loads."""
    done = subprocess.run(
        [sys.executable, "-c", _TIMED.format(code=code)], capture_output=True, text=True, check=True
    )
    seconds, modules = done.stdout.split()
    return float(seconds), int(modules)


def run(context: Context) -> Iterator[Block]:
    """Yield the table, and whether the package imports little beside what it needs."""
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in IMPORTS}
    for _ in range(1 if context.is_quick else 9):
        for name, code in IMPORTS.items():
            found[name].append(time_import(code))
    medians = {
        name: statistics.median(time_s for time_s, _ in times) for name, times in found.items()
    }
    base = medians["numpy, httpx"]
    yield Table(
        columns=("import", "ms", "ratio", "modules"),
        rows=tuple(
            (f"`{IMPORTS[name]}`", round(1e3 * median), round(median / base, 2), found[name][0][1])
            for name, median in medians.items()
        ),
        lower_is_better=("ratio", "modules"),
        plot=Plot(labels="import", values="ms"),
    )
    for name in ("sibling", "sibling.Client"):
        yield Claim(
            text=f"`{IMPORTS[name]}` takes at most {MAX_RATIO:g} times as long as numpy and httpx.",
            is_confirmed=medians[name] <= MAX_RATIO * base,
        )
