"""How long ``import sibling`` takes, beside what it cannot do without: numpy and httpx.

``python -m benchmarks.import_time`` imports each in fresh processes, in turns, and prints the
medians, their ratio and the number of modules; it says whether the ratio is at most 1.5. The last
lines are the first use of the client, and of an estimator beside scikit-learn, which it extends.
"""

import argparse
import statistics
import subprocess
import sys

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
before, started = len(sys.modules), time.perf_counter()
{code}
print(time.perf_counter() - started, len(sys.modules) - before)
"""


def run(code: str) -> tuple[float, int]:
    """Return the time of an import in a fresh process, in seconds, and the modules it loads."""
    done = subprocess.run(
        [sys.executable, "-c", _TIMED.format(code=code)], capture_output=True, text=True, check=True
    )
    seconds, modules = done.stdout.split()
    return float(seconds), int(modules)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-n", type=int, default=9, help="number of processes of each kind")
    args = parser.parse_args()
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in IMPORTS}
    for _ in range(args.n):
        for name, code in IMPORTS.items():
            found[name].append(run(code))
    medians = {
        name: statistics.median(time_s for time_s, _ in runs) for name, runs in found.items()
    }
    base = medians["numpy, httpx"]
    print(f"{'import':16}{'ms':>8}{'ratio':>8}{'modules':>9}")
    for name, median in medians.items():
        print(f"{name:16}{1e3 * median:8.0f}{median / base:8.2f}{found[name][0][1]:9d}")
    for name in ("sibling", "sibling.Client"):
        verdict = "at most" if medians[name] <= MAX_RATIO * base else "NOT at most"
        print(f"{name}: {verdict} {MAX_RATIO:g} times numpy and httpx")


if __name__ == "__main__":
    main()
