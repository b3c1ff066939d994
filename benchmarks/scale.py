"""Time and memory of fits of many tasks: 1,000 of 1,000 rows and 50 columns, and 10,000 small ones.

Each fit runs in a process of its own with the default parameters, BLAS on one thread, and a limit
of CPU time. "Added" is the peak memory without that of the process before the tasks are made;
"copies" divides it by the size of the rows. CPU times leave out compilation and the making of the
tasks. Kernel machines have a linear kernel: a kernel matrix of a million rows takes 8 TB.
"""

from typing import Final

from benchmarks.fit_child import MIB, Case, run_case
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Cell, Claim, Table

LARGE: Final = (1000, 1000, 50)
MANY: Final = (10_000, 20, 10)
#: CPU time of each fit, in seconds.
LIMIT_S: Final = 600
LINEAR: Final = {"kernel": "linear"}
SUBSPACES: Final = ("pca", "common-pca", "rmt-pca", "mtda", "lda-tr")
REGRESSIONS: Final = ("constant", "ridge", "mean-regularised", "mixed-model", "mtfl")

CASES: Final = (
    *(Case(name, *LARGE) for name in (*SUBSPACES, *REGRESSIONS)),
    *(Case(name, *LARGE) for name in ("cmtl", "shared-lasso", "gmtl", "logistic-regression")),
    *(Case(name, *LARGE) for name in ("boosted-trees", "nearest-neighbours")),
    *(Case(name, *LARGE, LINEAR) for name in ("kernel-tasks", "fmtl")),
    Case("tlvm", *LARGE, {"L": 5}),
    *(Case(name, *MANY) for name in (*SUBSPACES, *REGRESSIONS)),
    *(Case(name, *MANY) for name in ("cmtl", "shared-lasso", "logistic-regression")),
    Case("nearest-neighbours", *MANY),
)
QUICK_CASES: Final = tuple(
    Case(name, 100, 20, 10) for name in ("rmt-pca", "ridge", "mean-regularised")
)


def run(context: Context) -> list[Block]:
    """Return the table, and whether every fit ended."""
    cases = QUICK_CASES if context.is_quick else CASES
    rows = [_row(case) for case in cases]
    table = Table(
        columns=("algorithm", "tasks x rows x columns", "CPU, s", "added, MiB", "copies"),
        rows=tuple(rows),
        lower_is_better=("CPU, s", "added, MiB"),
    )
    late = [f"{name} ({shape})" for name, shape, cpu_s, *_ in rows if isinstance(cpu_s, str)]
    text = f"Every fit ends within {LIMIT_S} s of CPU time"
    text += f", but {', '.join(late)}." if late else "."
    return [table, Claim(text=text, is_confirmed=not late)]


def _row(case: Case) -> tuple[Cell, ...]:
    found = run_case(case, limit_s=LIMIT_S)
    start = (f"`{case.algorithm}`", case.shape)
    if isinstance(found, str):
        row: tuple[Cell, ...] = (*start, found, None, None)
    else:
        copies = found.added_mb * MIB / (8 * case.T * case.n * case.d)
        row = (*start, round(found.cpu_s, 1), round(found.added_mb), round(copies, 1))
    print(*row, flush=True)
    return row
