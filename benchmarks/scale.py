"""Time and memory of fits of many tasks: 1,000 of 1,000 rows and 50 columns, and 10,000 small ones.

    python -m benchmarks.scale [--timeout 600] [--only NAME ...]

Each fit runs in a process of its own, with BLAS on one thread and a time limit (wall time). "added"
is the peak memory without that of the process before the tasks are made; "copies" divides it by the
size of the rows. CPU times leave out compilation and the making of the tasks.
"""

import argparse

from benchmarks.fit_child import MIB, Case, Measured, run_case

LARGE = (1000, 1000, 50)
MANY = (10_000, 20, 10)

#: Kernel machines have a linear kernel or landmarks: a kernel matrix of a million rows takes 8 TB.
CASES = (
    *(Case(name, *LARGE) for name in ("mtda", "mtfl", "rmt-pca", "pca", "common-pca")),
    Case("ridge", *LARGE),
    Case("fmtl", *LARGE, {"kernel": "linear"}),
    Case("kernel-tasks", *LARGE, {"kernel": "linear"}),
    Case("tlvm", *LARGE, {"L": 5}),
    *(Case(name, *MANY) for name in ("mtda", "mtfl", "rmt-pca", "pca", "common-pca", "ridge")),
    Case("fmtl", *MANY, {"kernel": "linear"}),
)


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each fit")
    parser.add_argument("--only", nargs="*", help="names of algorithms")
    args = parser.parse_args()
    print("| algorithm | tasks x rows x columns | CPU, s | added, MiB | copies |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for case in CASES:
        if args.only and case.algorithm not in args.only:
            continue
        shape = f"{case.T:,} x {case.n:,} x {case.d}"
        found = run_case(case, timeout_s=args.timeout)
        print(f"| `{case.algorithm}` | {shape} | {describe(case, found)} |", flush=True)


def describe(case: Case, found: Measured | str) -> str:
    """Return the last cells of a row."""
    if isinstance(found, str):
        return f"{found} | | "
    copies = found.added_mb * MIB / (8 * case.T * case.n * case.d)
    return f"{found.cpu_s:.1f} | {found.added_mb:,.0f} | {copies:.1f}"


if __name__ == "__main__":
    main()
