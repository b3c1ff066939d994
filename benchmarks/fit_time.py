"""Expected time of fits, compared with the processor time that they take.

Every algorithm fits made tasks of several sizes with its default parameters, and with selection by
cross-validation where it has one; classes are fitted as well where it takes both kinds of targets.
BLAS has one thread. The ratio is the expected time at reference speeds divided by the measured one,
and is right within a factor of 3 if it is from 1/3 to 3. A fit that is stopped at the limit counts
as right if the limit is at most three times the expected time. The constants of the estimates were
chosen on made tasks of other sizes, before these were measured; on real data, iterative methods can
need many more or fewer iterations.

    python -m benchmarks.fit_time ALGORITHM '[{"algorithm": "pca", "T": 9, "n": 50, "d": 20}]'
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Final

import numpy as np

from algorithms.interface.trace import Trace
from algorithms.numerics import warm
from algorithms.registry import ALGORITHMS
from benchmarks.fit_child import THREADS, Case, make_tasks
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Cell, Claim, Note, Table

#: Processor time of each fit, in seconds.
LIMIT_S: Final = {"full": 8.0, "quick": 2.0}
#: Shorter fits count less: calls and noise are most of their time.
MIN_S: Final = 0.5
MAX_RATIO: Final = 3.0
GOAL: Final = 0.9

Shape = tuple[int, int, int]

#: Tasks, rows of each, and columns, by family: with default parameters, and with selection 'cv'.
FAMILIES: Final[dict[tuple[str, ...], tuple[Sequence[Shape], Sequence[Shape]]]] = {
    ("rmt-pca", "pca", "common-pca", "transfer-pca", "ppca"): (
        ((1500, 150, 40), (3000, 30, 15), (40, 500, 250), (25, 80, 800), (6, 20_000, 80)),
        ((200, 50, 25), (25, 250, 80)),
    ),
    ("mtda", "lda-rt", "lda-tr", "lda-null", "aggregate", "pca-classifier"): (
        ((1000, 30, 15), (200, 300, 50), (40, 400, 250), (12, 600, 600)),
        ((30, 80, 25), (6, 600, 15)),
    ),
    ("fmtl", "kernel-tasks", "kernel-scaled", "kernel-mean", "kernel-graph", "mtrl"): (
        ((40, 70, 10), (4, 900, 15), (60, 90, 25), (8, 700, 30), (3, 2500, 15)),
        ((12, 150, 15), (4, 500, 12)),
    ),
    ("okl", "convex-okl"): (((120, 150, 15), (15, 1500, 20), (5, 2200, 30)), ((15, 400, 20),)),
    ("tlvm", "gp-lvm"): (((4, 2500, 60), (25, 60, 30), (50, 50, 12), (3, 1000, 150)), ()),
    ("mtfl", "ridge", "mean-regularised", "shared-lasso", "cmtl", "gmtl"): (
        ((800, 60, 15), (120, 400, 50), (30, 150, 180), (2000, 30, 10), (8, 6000, 60)),
        ((80, 50, 15), (25, 250, 30)),
    ),
    ("mixed-model", "logistic-regression"): (
        ((800, 60, 15), (120, 400, 50), (30, 250, 100), (2000, 30, 10), (8, 6000, 40)),
        (),
    ),
    ("gp",): (((40, 8, 10), (12, 60, 20), (50, 40, 12), (150, 90, 15), (6, 3000, 10)), ()),
    ("kernel-ridge",): (((12, 150, 12), (5, 400, 15), (15, 200, 25)), ()),
    ("boosted-trees",): (((30, 100, 25), (150, 100, 15), (15, 2500, 30), (5, 15_000, 15)), ()),
    ("nearest-neighbours",): (((25, 700, 15), (250, 120, 25), (5, 4000, 10)), ()),
    ("constant",): (((3000, 80, 25), (15_000, 20, 15)), ()),
}


@dataclass(frozen=True)
class Measured:
    """A fit with its expected and its measured time in seconds; at the limit if it was stopped."""

    case: Case
    expected_s: float
    cpu_s: float
    is_stopped: bool

    @property
    def ratio(self) -> float:
        """Expected time divided by the measured one."""
        return self.expected_s / max(self.cpu_s, 1e-3)

    @property
    def is_right(self) -> bool:
        """Whether the expected time is right within a factor of 3, as far as is known."""
        return self.ratio >= 1 / MAX_RATIO and (self.is_stopped or self.ratio <= MAX_RATIO)


class _Stopped(BaseException):
    """The processor time of a fit is used up."""


def run(context: Context) -> list[Block]:
    """Return the table of all algorithms, and whether enough estimates are right."""
    limit_s = LIMIT_S["quick" if context.is_quick else "full"]
    rows, counted = [], []
    for family, (plain, selected) in FAMILIES.items():
        for name in family:
            cases = list(_cases(name, plain, selected, is_quick=context.is_quick))
            found = _measure(name, cases, limit_s=limit_s)
            long = [one for one in found if one.cpu_s >= MIN_S]
            rows.append(_row(name, found, long))
            print(*rows[-1], flush=True)
            counted += long
    share = sum(one.is_right for one in counted) / max(len(counted), 1)
    columns = ("algorithm", "fits", f"of {MIN_S:g} s or more", "right, %", "median ratio",
               "worst ratio", "worst fit: tasks x rows x columns")  # fmt: skip
    text = f"{share:.0%} of {len(counted)} fits that take {MIN_S:g} s or more"
    wrong = [one for one in counted if not one.is_right]
    return [
        Table(columns=columns, rows=tuple(rows), higher_is_better=("right, %",)),
        Table(
            caption="Fits whose estimate is not right.",
            columns=("algorithm", "fit", "expected, s", "measured, s", "ratio"),
            rows=tuple(_wrong_row(one) for one in wrong),
        ),
        Note(text=f"{text} are expected to take their time within a factor of {MAX_RATIO:g}."),
        Claim(
            text=f"At least {GOAL:.0%} of these are right within a factor of {MAX_RATIO:g}.",
            is_confirmed=share >= GOAL,
        ),
    ]


def _cases(
    name: str, plain: Sequence[Shape], selected: Sequence[Shape], *, is_quick: bool
) -> Iterable[Case]:
    """Yield the fits of an algorithm; in the quick form, the first of each kind."""
    algorithm = ALGORITHMS[name]
    targets = ("numbers", "classes") if algorithm.needs.target == "any" else ("numbers",)
    field = algorithm.Params.model_json_schema()["properties"].get("selection", {})
    has_selection = "cv" in field.get("enum", ())
    for target in targets[:1] if is_quick else targets:
        for shape in plain[:1] if is_quick else plain:
            yield Case(name, *shape, target=target)
        for shape in (selected[:1] if is_quick else selected) if has_selection else ():
            yield Case(name, *shape, {"selection": "cv"}, target)


def _row(name: str, found: Sequence[Measured], long: Sequence[Measured]) -> tuple[Cell, ...]:
    label = f"`{name}`"
    if not long:
        return (label, len(found), 0, None, None, None, None)
    worst = max(long, key=lambda one: (not one.is_right, abs(math.log(one.ratio))))
    share = round(100 * sum(one.is_right for one in long) / len(long))
    known = [one.ratio for one in long if not one.is_stopped]
    middle = round(median(known), 2) if known else None
    return (label, len(found), len(long), share, middle, round(worst.ratio, 2), _describe(worst))


def _wrong_row(one: Measured) -> tuple[Cell, ...]:
    measured = f"more than {one.cpu_s:.0f}" if one.is_stopped else round(one.cpu_s, 2)
    label, ratio = f"`{one.case.algorithm}`", round(one.ratio, 2)
    return (label, _describe(one), round(one.expected_s, 2), measured, ratio)


def _describe(one: Measured) -> str:
    """Return the shape of a fit, its targets if they are classes, and its selection."""
    text = one.case.shape
    if one.case.target == "classes":
        text += ", classes"
    return f"{text}, selection 'cv'" if one.case.params else text


def _measure(name: str, cases: Sequence[Case], *, limit_s: float) -> list[Measured]:
    """Return the fits of an algorithm, made one after the other in a process of their own."""
    given = json.dumps([asdict(case) for case in cases])
    command = [sys.executable, "-m", "benchmarks.fit_time", name, given, str(limit_s)]
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = []
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        algorithm = ALGORITHMS[name]
        work = algorithm.work(make_tasks(case).summaries(), algorithm.parse(case.params))
        found.append(Measured(case, work.seconds, **json.loads(line)))
    return found


def main() -> None:
    """Fit every case, and print its processor time as a line of JSON."""
    name, cases = sys.argv[1], [Case(**one) for one in json.loads(sys.argv[2])]
    limit_s = float(sys.argv[3])
    algorithm = ALGORITHMS[name]
    warm.main()
    signal.signal(signal.SIGPROF, _stop)
    first = Case(name, 3, 30, 5, target=cases[0].target)
    rng = np.random.default_rng(0)
    algorithm.fit(make_tasks(first), algorithm.parse({}), trace=Trace(), rng=rng)
    for case in cases:
        tasks, params = make_tasks(case), algorithm.parse(case.params)
        is_stopped, started = False, time.process_time()
        try:
            signal.setitimer(signal.ITIMER_PROF, limit_s)
            algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
        except _Stopped:
            is_stopped = True
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        cpu_s = time.process_time() - started
        print(json.dumps({"cpu_s": cpu_s, "is_stopped": is_stopped}), flush=True)


def _stop(*_: object) -> None:
    raise _Stopped


if __name__ == "__main__":
    main()
