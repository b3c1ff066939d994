"""Expected memory of fits, compared with the peak memory of a process that makes the fit.

Both are those of a whole process, as the limit of a job is; "fit alone" leaves out what the process
takes before.
"""

from algorithms.registry import ALGORITHMS
from benchmarks.fit_child import MIB, Case, make_tasks, run_case
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table
from service.datasets.suitability import expected_memory

MIN_RATIO, MAX_RATIO = 0.5, 2.0
#: CPU time of each fit.
LIMIT_S = 300
CASES = (
    Case("mtda", 50, 300, 200),
    Case("mtda", 200, 500, 100),
    Case("fmtl", 10, 200, 20),
    Case("fmtl", 25, 200, 20),
    Case("fmtl", 50, 400, 20, {"nystrom": 500}),
    Case("mtfl", 200, 200, 50),
    Case("mtfl", 1000, 200, 50),
    Case("tlvm", 3, 1000, 256, {"L": 5}),
    Case("tlvm", 3, 6000, 256, {"L": 5}),
    Case("rmt-pca", 1000, 200, 50),
    Case("rmt-pca", 100, 200, 200),
    Case("rmt-pca", 10, 60, 5000),
    Case("kernel-tasks", 10, 200, 20),
    Case("kernel-tasks", 25, 200, 20),
    Case("ridge", 1000, 200, 50),
    Case("ridge", 1000, 1000, 50),
)
QUICK_CASES = (Case("mtda", 50, 300, 200), Case("rmt-pca", 100, 200, 200))


def run(context: Context) -> list[Block]:
    """Return the table, and whether every estimate is near."""
    rows = []
    for case in QUICK_CASES if context.is_quick else CASES:
        algorithm = ALGORITHMS[case.algorithm]
        estimate = algorithm.memory(make_tasks(case).summaries(), algorithm.parse(case.params))
        expected_mb = expected_memory(estimate) / MIB
        found = run_case(case, limit_s=LIMIT_S)
        measured: tuple[float | str | None, ...] = (found, None, None)
        if not isinstance(found, str):
            alone = estimate.n_bytes / MIB / found.added_mb
            measured = (round(found.peak_mb), expected_mb / found.peak_mb, alone)
        rows.append((f"`{case.algorithm}`", case.shape, round(expected_mb), *measured))
    columns = ("algorithm", "tasks x rows x columns", "expected, MiB", "peak, MiB", "ratio",
               "ratio of the fit alone")  # fmt: skip
    text = f"Every ratio is between {MIN_RATIO:g} and {MAX_RATIO:g}."
    is_near = all(row[4] is not None and MIN_RATIO <= row[4] <= MAX_RATIO for row in rows)
    return [
        Table(columns=columns, rows=tuple(rows), lower_is_better=("peak, MiB",)),
        Claim(text=text, is_confirmed=is_near),
    ]
