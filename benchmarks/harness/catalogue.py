"""The benchmarks, in the order of the pages."""

from dataclasses import dataclass
from typing import Final

from benchmarks.harness.benchmark import Benchmark


@dataclass(frozen=True)
class Chapter:
    """Benchmarks that have a page, ``docs/benchmarks/{name}.md``."""

    name: str
    title: str
    benchmarks: tuple[Benchmark, ...]


_SPEED: Final = (
    Benchmark("mtda_speed", "Speed of MTDA", needs_data=True),
    Benchmark("fmtl_speed", "Speed of FMTL", needs_data=True, is_long=True),
    Benchmark("mtfl_speed", "Speed of MTFL", needs_data=True, is_long=True),
    Benchmark("mtfl_tall", "MTFL with many rows"),
    Benchmark("tlvm_vs_gpy", "Speed of TLVM", needs_data=True, is_long=True),
    Benchmark("rmtpca_vs_pymanopt", "Speed of RMT-PCA", is_long=True),
    Benchmark("selection_folds", "Selection by cross-validation"),
    Benchmark("scale", "Many tasks", is_long=True),
    Benchmark("memory_estimates", "Memory of fits"),
    Benchmark("fit_time", "Expected time of fits", is_long=True, quick_limit_s=600),
    Benchmark("estimator_overhead", "Overhead of estimators"),
    Benchmark("import_time", "Time of imports"),
)
_ACCURACY: Final = (
    Benchmark("digits", "Ten digits, of six images each"),
    Benchmark("mtda_faces", "MTDA on faces", needs_data=True, is_long=True),
    Benchmark("tlvm_transfer", "TLVM with many target rows", needs_data=True, is_long=True),
    Benchmark(
        "tlvm_few_rows",
        "TLVM with few target rows",
        needs_data=True,
        is_long=True,
        quick=("--seeds", "1"),
    ),
    Benchmark(
        "fmtl_tables",
        "FMTL against its baselines",
        needs_data=True,
        is_long=True,
        quick=("--splits", "2", "--only", "school"),
    ),
    Benchmark(
        "fmtl_relations", "Relations of Landmine fields", needs_data=True, quick=("--rows", "40")
    ),
    Benchmark("mtfl_school", "MTFL on School", needs_data=True),
    Benchmark("mtfl_survey", "MTFL on the computer survey", needs_data=True),
    Benchmark("mtfl_synthetic", "MTFL on synthetic tasks", is_long=True),
    Benchmark("rmtpca_synthetic", "RMT-PCA on synthetic tasks"),
    Benchmark("rmtpca_eeg", "RMT-PCA on covariances of EEG", needs_data=True),
    Benchmark("rmtpca_choice", "Choice of the coupling of RMT-PCA"),
    Benchmark("gmtl_digits", "GMTL and CMTL on digits", needs_data=True, quick=()),
    Benchmark(
        "target_scales",
        "Scales of targets",
        needs_data=True,
        is_long=True,
        quick=("--splits", "1", "--problems", "School"),
    ),
)
_VERDICTS: Final = (
    Benchmark(
        "verdict_calibration",
        "Verdict calibration",
        is_long=True,
        quick=("--only", "simple", "--sets", "20"),
    ),
    Benchmark("peers", "Automatic choice against other packages", is_long=True, limit_s=14_400),
    Benchmark("sharing_verdict", "Verdict on learning together", is_long=True),
    Benchmark(
        "automatic_calibration",
        "Verdict of the automatic choice",
        quick=("--sets", "2"),
        is_long=True,
    ),
    Benchmark(
        "automatic_leaderboard",
        "Leaderboard of the automatic choice",
        needs_data=True,
        quick=("--only", "school", "--rows", "10", "--budget", "10"),
        is_long=True,
    ),
    Benchmark("automatic_groups", "Tasks that are unrelated to the others", quick=("--sets", "1")),
    Benchmark(
        "automatic_curve",
        "Learning curve of the automatic choice",
        quick=("--sets", "1"),
        is_long=True,
    ),
    Benchmark(
        "interval_coverage",
        "Coverage of intervals and sets",
        needs_data=True,
        is_long=True,
        quick=("--parts", "1"),
    ),
)
_SERVICE: Final = (
    Benchmark(
        "serving",
        "Calls of a model",
        is_long=True,
        full=("--peers", "mlserver"),
        quick=("--rounds", "1", "--seconds", "0.3"),
    ),
    Benchmark(
        "monitored_calls",
        "Calls with a monitor",
        quick=("--rounds", "1", "--seconds", "0.3", "--connections", "1"),
    ),
    Benchmark("csv_upload", "Reading of large tables"),
    Benchmark("clients", "Clients and proxies", is_long=True, limit_s=7200),
    Benchmark("jobs_latency", "Jobs beside their training"),
    Benchmark("searches", "Searches on all cores"),
    Benchmark("pages", "Pages", quick=("--jobs", "200", "--models", "20", "--repeats", "3")),
    Benchmark(
        "queries",
        "Queries on a long history",
        is_long=True,
        quick=(
            "--databases",
            "sqlite",
            "--jobs",
            "5000",
            "--models",
            "500",
            "--events",
            "20000",
        ),
    ),
    Benchmark(
        "heartbeats",
        "Heartbeats of many workers",
        full=("10", "100", "200", "--seconds", "15"),
        quick=("10", "--seconds", "5"),
    ),
)
_FAULTS: Final = (
    Benchmark(
        "jobs_under_chaos",
        "Jobs while processes are killed",
        full=("--jobs", "2000", "--minutes", "16", "--every", "5"),
        quick=("--jobs", "40", "--minutes", "1"),
        is_long=True,
    ),
    Benchmark("fault_matrix", "Faults", is_long=True, quick=None),
    Benchmark("attacks", "Attacks on availability", is_long=True, quick=None),
    Benchmark(
        "schema_fuzzing",
        "Requests from the OpenAPI document",
        is_long=True,
        quick=("--minutes", "0.5", "--databases", "sqlite"),
    ),
)

CHAPTERS: Final = (
    Chapter("speed", "Speed and memory of the algorithms", _SPEED),
    Chapter("accuracy", "Accuracy", _ACCURACY),
    Chapter("verdicts", "Verdicts, choices and intervals", _VERDICTS),
    Chapter("service", "Service", _SERVICE),
    Chapter("faults", "Faults and attacks", _FAULTS),
)
BENCHMARKS: Final = {one.name: one for chapter in CHAPTERS for one in chapter.benchmarks}
