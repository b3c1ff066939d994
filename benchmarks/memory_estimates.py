"""Expected memory of fits, compared with the peak memory of a process that makes the fit.

    python -m benchmarks.memory_estimates [--timeout 600]

Every ratio of the expected to the measured memory should be between 0.5 and 2. Both are those of a
whole process, as the limit of a job is; "fit alone" leaves out what the process takes before.
"""

import argparse

from algorithms.registry import ALGORITHMS
from benchmarks.fit_child import MIB, Case, make_tasks, run_case
from service.datasets.suitability import expected_memory

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


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each fit")
    args = parser.parse_args()
    print("| algorithm | tasks x rows x columns | expected, MiB | peak, MiB | ratio | fit alone |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for case in CASES:
        algorithm = ALGORITHMS[case.algorithm]
        params = algorithm.parse(case.params)
        estimate = algorithm.memory(make_tasks(case).summaries(), params)
        expected_mb = expected_memory(estimate) / MIB
        found = run_case(case, timeout_s=args.timeout)
        end = f"{expected_mb:,.0f} | {found} | | |"
        if not isinstance(found, str):
            end = (
                f"{expected_mb:,.0f} | {found.peak_mb:,.0f} | {expected_mb / found.peak_mb:.2f} | "
                f"{estimate.n_bytes / MIB / found.added_mb:.2f} |"
            )
        print(f"| `{case.algorithm}` | {case.T:,} x {case.n:,} x {case.d} | {end}", flush=True)


if __name__ == "__main__":
    main()
