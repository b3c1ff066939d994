"""``python -m benchmarks``: runs benchmarks, and writes docs/benchmarks.

python -m benchmarks                      run all but long ones, and write the pages
python -m benchmarks import_time          run one and print its tables
python -m benchmarks import_time --keep   and keep its result
python -m benchmarks --page               only write the pages
"""

import argparse
import sys
from pathlib import Path

from benchmarks.harness import page
from benchmarks.harness.benchmark import Benchmark
from benchmarks.harness.catalogue import BENCHMARKS
from benchmarks.harness.markdown import block_lines
from benchmarks.harness.regressions import regressions
from benchmarks.harness.results import Form, Problem, Run, load, save
from benchmarks.harness.runner import run


def main() -> int:
    """Run what the command line names, and return the exit code."""
    options = _options()
    form: Form = "quick" if options.quick else "full"
    is_kept = options.keep or not options.names
    outcomes = []
    if not options.page:
        for name in options.names or _usual(form):
            outcome, n_worse = _run(BENCHMARKS[name], form, options.data, is_kept=is_kept)
            outcomes.append((name, outcome, n_worse))
    if is_kept or options.page:
        page.write()
    return _summarise(outcomes, fails_if_worse=options.fail_if_worse)


def _usual(form: Form) -> list[str]:
    """Return the benchmarks that run if none is named."""
    return [one.name for one in BENCHMARKS.values() if form == "quick" or not one.is_long]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="default: all but those of more than ten minutes"
    )
    parser.add_argument("--quick", action="store_true", help="short forms")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder with datasets")
    parser.add_argument("--keep", action="store_true", help="keep the results of named benchmarks")
    parser.add_argument("--page", action="store_true", help="only write the pages")
    parser.add_argument(
        "--fail-if-worse", action="store_true", help="exit code 1 if a number became worse"
    )
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return options


def _run(
    benchmark: Benchmark, form: Form, data: Path | None, *, is_kept: bool
) -> tuple[Run | Problem, int]:
    """Run, print and keep; also return how many numbers became worse."""
    print(f"\n# {benchmark.title} ({benchmark.command(form)})\n", flush=True)
    kept = load(benchmark.name)
    outcome = run(benchmark, form, data)
    if isinstance(outcome, Problem):
        print(outcome.reason, flush=True)
        kept = kept.model_copy(update={"problem": outcome})
        worse = []
    else:
        for block in outcome.blocks:
            print(*block_lines(block), sep="\n", flush=True)
        kept = kept.with_run(form, outcome)
        worse = regressions(kept.runs(form))
        for one in worse:
            print(f"WORSE {one}")
    if is_kept:
        save(benchmark.name, kept)
    return outcome, len(worse)


def _summarise(outcomes: list[tuple[str, Run | Problem, int]], *, fails_if_worse: bool) -> int:
    """Print a line for each benchmark, and return the exit code."""
    print()
    is_bad = False
    for name, outcome, n_worse in outcomes:
        if isinstance(outcome, Problem):
            print(f"{name}: {outcome.reason}")
            is_bad |= not outcome.reason.startswith("skipped")
            continue
        wrong = [claim.text for claim in outcome.claims if not claim.is_confirmed]
        print(
            f"{name}: {outcome.seconds:.0f} s, {len(wrong)} claims not confirmed, {n_worse} worse"
        )
        is_bad |= fails_if_worse and n_worse > 0
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
