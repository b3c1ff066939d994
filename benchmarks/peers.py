"""The automatic choice against other packages, on tables of R's data sets.

The tables are those of the package pydataset; no default was chosen with them. Of each at most 20
tasks are drawn that have more than 5, 15 or 40 rows; so many train, and up to 200 others of each
task are predicted. Categories are one column for each level; rows with gaps are left out. All
methods get the same rows. The loss is the mean over tasks of the root mean squared error in units
of the standard deviation of the task, or of the error rate.

- `rank`: mean over the tables, 1 is the best.
- `loss above the best`: median over the tables, relative to the smallest loss of any method.
- `seconds`: processor time of fit and predictions, one thread, median.
- `log loss`, `Brier score`: of probabilities of at least .0001, means over the tasks, relative to
  those of the automatic choice (geometric mean), for methods with probabilities on all tables.
- `coverage`: share of new rows whose target is in the interval of 90 %, or whose class is in the
  set; mean over the tasks, and the least of tasks of at least 20 new rows.

Each peer runs in an environment of its own, with numpy and what it needs, which is made once below
the folder that ``SIBLING_PEERS`` names, or below a temporary one. A method that fails on a
table has no loss there.

    python -m benchmarks peers
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import AlgorithmError, InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Plot, Table
from benchmarks.serving_servers import environment_of
from benchmarks.tlvm_vs_gpy import THREADS

Array = NDArray[Any]

N_TASKS: Final = 20
N_TEST: Final = 200
ROWS: Final = (5, 15, 40)
#: What the tables call the algorithm that a job with ``auto`` trains.
AUTO: Final = "Sibling: auto"
#: Algorithms of this project, and what the tables call them.
OURS: Final = {
    "ensemble": AUTO,
    "gp": "Sibling: gp",
    "mean-regularised": "Sibling: mean-regularised",
}
#: Package of the environment of a peer, or none if it is one of this project's own environment.
PEERS: Final = {
    "ridge": ("", "scikit-learn: ridge, dummies of tasks"),
    "forest": ("", "scikit-learn: forest, dummies of tasks"),
    "lightgbm": ("", "LightGBM, task as a category"),
    "statsmodels": ("", "statsmodels: mixed model"),
    "catboost": ("catboost", "CatBoost, task as a category"),
    "gpboost": ("gpboost", "GPBoost, intercept of each task"),
    "gpy": ("GPy", "GPy, common and own part"),
    "flaml": ("flaml[automl]", "FLAML, ten seconds"),
}
#: Names of the scores: loss, seconds, those of probabilities, and coverage.
LOSS, SECONDS, LOG_LOSS, BRIER = "loss", "seconds", "log loss", "Brier"
COVERAGE, LEAST = "coverage", "least coverage of a task"
#: Smallest probability, and smallest number of new rows of a task whose coverage is reported.
MIN_PROBABILITY: Final = 1e-4
MIN_ROWS: Final = 20
#: A loss within 2 % of the best is as good.
AS_GOOD: Final = 1.02
ABOVE: Final = "loss above the best in %"


@dataclass(frozen=True)
class Source:
    """A table: its file, the columns with the task and the target, and columns to leave out."""

    file: str
    task: str
    target: str
    without: tuple[str, ...] = ()


SOURCES: Final = (
    Source("Ecdat/Star", "schidkn", "tmathssk", ("treadssk",)),
    Source("Ecdat/VietNamH", "commune", "lnmed", ("lnexp12m",)),
    Source("Ecdat/Cigarette", "state", "packpc"),
    Source("Ecdat/Fatality", "state", "mrall"),
    Source("Ecdat/Caschool", "county", "testscr", ("distcod", "district", "readscr", "mathscr")),
    Source("reshape2/french_fries", "subject", "rancid"),
    Source("plyr/baseball", "team", "r", ("id", "lg")),
    Source("ggplot2/diamonds", "clarity", "price"),
    Source("ggplot2/mpg", "manufacturer", "hwy", ("model", "cty")),
    Source("plm/EmplUK", "firm", "emp"),
    Source("geepack/dietox", "Pig", "Weight"),
    Source("lme4/VerbAgg", "item", "r2", ("resp", "id", "btype", "situ", "mode")),
    Source("Ecdat/Benefits", "state", "ui", ("stateur", "statemb")),
    Source("car/Greene", "judge", "decision", ("success",)),
    Source("Ecdat/Train", "id", "choice", ("choiceid",)),
    Source("car/Chile", "region", "vote"),
)


def read(source: Source, archive: tarfile.TarFile) -> pd.DataFrame:
    """Return the table without rows that have gaps."""
    names = [m for m in archive.getnames() if m.endswith(f"csv/{source.file}.csv")]
    file = archive.extractfile(names[0])
    assert file is not None
    frame = pd.read_csv(io.BytesIO(file.read()), index_col=0, encoding="latin1")
    return frame.drop(columns=list(source.without)).dropna()


def drawn(frame: pd.DataFrame, source: Source, n: int) -> dict[str, Array] | None:
    """Return training rows of some tasks and rows to predict; None if too few tasks have enough."""
    rng = np.random.default_rng(n)
    groups = [rows for _, rows in frame.groupby(source.task) if len(rows) >= n + max(2, n // 4)]
    if len(groups) < 3:
        return None
    groups = [groups[i] for i in rng.permutation(len(groups))[:N_TASKS]]
    order = [rng.permutation(len(rows)) for rows in groups]
    train = pd.concat([rows.iloc[p[:n]] for rows, p in zip(groups, order, strict=True)])
    test = pd.concat([rows.iloc[p[n : n + N_TEST]] for rows, p in zip(groups, order, strict=True)])
    both = pd.concat([train, test])
    y: Array = both[source.target].to_numpy()
    if y.dtype.kind not in "iuf":
        y = pd.factorize(y, sort=True)[0].astype(np.int64)
    else:
        y = y.astype(np.float64)
    columns = pd.get_dummies(both.drop(columns=[source.task, source.target]), dtype=float)
    X = columns.to_numpy(np.float64)
    task = pd.factorize(both[source.task])[0]
    k = len(train)
    arrays = {"X": X[:k], "task": task[:k], "y": y[:k]}
    return arrays | {"X_new": X[k:], "task_new": task[k:], "y_new": y[k:]}


def own_scores(algorithm: Algorithm[Any, Any], case: dict[str, Array]) -> dict[str, float]:
    """Return the scores of an algorithm of this project."""
    started = time.process_time()
    tasks = TaskSet(
        tuple(
            Task.from_rows(f"t{t:03}", case["X"][case["task"] == t], y=case["y"][case["task"] == t])
            for t in range(case["task"].max() + 1)
        )
    )
    params = algorithm.parse({})
    model = algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    has_probabilities = case["y"].dtype.kind == "i" and hasattr(model, "predict_proba")
    shape = (len(case["y_new"]), int(case["y"].max()) + 1)
    predicted = np.zeros(shape if has_probabilities else shape[:1])
    for name, rows in _rows_by_task(case):
        if has_probabilities:
            labels = np.asarray(model.classes(name))
            predicted[np.ix_(rows, labels)] = model.predict_proba(case["X_new"][rows], task=name)
        else:
            predicted[rows] = model.predict(case["X_new"][rows], task=name)
    seconds = time.process_time() - started
    scores = scores_of(predicted, case) | {SECONDS: seconds}
    if hasattr(model, "predict_interval"):
        with suppress(InvalidData):  # eight tasks of five rows have no intervals of 90 %
            scores |= coverage_of(model, case)
    return scores


def _rows_by_task(case: dict[str, Array]) -> list[tuple[str, Array]]:
    """Return the name and the positions of new rows of each task."""
    return [(f"t{t:03}", np.flatnonzero(case["task_new"] == t)) for t in np.unique(case["task"])]


def coverage_of(model: Any, case: dict[str, Array]) -> dict[str, float]:
    """Return the mean coverage of intervals or sets over tasks, and the least."""
    shares, sizes = [], []
    for name, rows in _rows_by_task(case):
        X, y = case["X_new"][rows], case["y_new"][rows]
        if y.dtype.kind == "i":
            found = model.predict_set(X, task=name)
            is_covered = (found > 0) & (y[:, np.newaxis] == np.asarray(model.classes(name)))
            shares.append(float(is_covered.any(axis=1).mean()))
        else:
            low, high = model.predict_interval(X, task=name).T
            shares.append(float(np.mean((low <= y) & (y <= high))))
        sizes.append(len(rows))
    counted = [share for share, size in zip(shares, sizes, strict=True) if size >= MIN_ROWS]
    return {COVERAGE: float(np.mean(shares)), LEAST: min(counted, default=np.nan)}


def scores_of(predicted: Array, case: dict[str, Array]) -> dict[str, float]:
    """Return the loss of predictions, and scores of probabilities (n, C)."""
    if predicted.ndim == 1:
        return {LOSS: loss_of(predicted, case)}
    p, y = np.maximum(predicted, MIN_PROBABILITY), case["y_new"]
    p /= p.sum(axis=1, keepdims=True)
    is_class = y[:, np.newaxis] == np.arange(p.shape[1])
    unknown = y >= p.shape[1]  # a class without training rows
    log_loss = np.where(unknown, -np.log(MIN_PROBABILITY), -np.log(np.where(is_class, p, 1)).sum(1))
    brier = ((p - is_class) ** 2).sum(axis=1) + unknown
    tasks = [rows for _, rows in _rows_by_task(case)]
    return {
        LOSS: loss_of(predicted.argmax(axis=1), case),
        LOG_LOSS: float(np.mean([log_loss[rows].mean() for rows in tasks])),
        BRIER: float(np.mean([brier[rows].mean() for rows in tasks])),
    }


def loss_of(predicted: Array, case: dict[str, Array]) -> float:
    """Return the mean over tasks of RMSE/σ, or of the error rate."""
    losses = []
    for t in np.unique(case["task_new"]):
        y, found = (values[case["task_new"] == t] for values in (case["y_new"], predicted))
        if y.dtype.kind == "i":
            losses.append(float(np.mean(y != found)))
        else:
            spread = np.concatenate([y, case["y"][case["task"] == t]]).std() or 1.0
            losses.append(float(np.sqrt(np.mean((y - found) ** 2)) / spread))
    return float(np.mean(losses))


def peer_answers(name: str, folder: Path, environments: Path) -> None:
    """Let a peer answer all cases of a folder."""
    package = PEERS[name][0]
    python = Path(sys.executable)
    if package:
        python = environment_of(package, environments) / "bin" / "python"
    command = [str(python), str(Path(__file__).with_name("peer_methods.py")), name, str(folder)]
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    subprocess.run(command, env=environment, check=True)


def run(context: Context) -> Iterator[Block]:
    """Yield ranks, losses and seconds of all methods, for each number of rows and over all."""
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        environments = Path(os.environ.get("SIBLING_PEERS", temporary))
        folder = Path(temporary, "cases")
        folder.mkdir()
        cases = _cases(folder, environments, is_quick=context.is_quick)
        scores: dict[str, dict[str, dict[str, float]]] = {}
        for name, title in OURS.items():
            scores[title] = {}
            for key, case in cases.items():
                with suppress(AlgorithmError):
                    scores[title][key] = own_scores(ALGORITHMS[name], case)
        for name, (_, title) in PEERS.items():
            peer_answers(name, folder, environments)
            scores[title] = {}
            for path in (folder / name).glob("*.npz"):
                with np.load(path, allow_pickle=False) as file:
                    found = scores_of(file["predicted"], cases[path.stem])
                    scores[title][path.stem] = found | {SECONDS: float(file["seconds"])}
    yield from _blocks(scores)


def _cases(folder: Path, environments: Path, *, is_quick: bool) -> dict[str, dict[str, Array]]:
    """Return the cases by name, and write them into a folder, without what is to be predicted."""
    package = environment_of("pydataset", environments)
    (path,) = package.glob("lib/*/site-packages/pydataset/resources.tar.gz")
    cases = {}
    with tarfile.open(path) as archive:
        for source in SOURCES[::5] if is_quick else SOURCES:
            frame = read(source, archive)
            for n in ROWS[:1] if is_quick else ROWS:
                case = drawn(frame, source, n)
                if case is not None:
                    key = f"{source.file.rpartition('/')[2]}-{n}"
                    cases[key] = case
                    given = {name: values for name, values in case.items() if name != "y_new"}
                    np.savez(folder / f"{key}.npz", **given)
    return cases


def _blocks(scores: dict[str, dict[str, dict[str, float]]]) -> Iterator[Block]:
    keys = list(scores[AUTO])

    def of(score: str) -> pd.DataFrame:
        """Return a score of each case (rows) and method (columns)."""
        values = {
            title: {key: found.get(score, np.nan) for key, found in by_case.items()}
            for title, by_case in scores.items()
        }
        return pd.DataFrame(values, index=keys)

    frame, times = of(LOSS), of(SECONDS)
    rows_of = {key: int(key.rpartition("-")[2]) for key in keys}
    auto = frame[AUTO]
    for n in (*sorted({*rows_of.values()}), None):
        some = frame[[n in {None, rows_of[key]} for key in keys]]
        ranks = some.rank(axis=1)
        above = some.div(some.min(axis=1), axis=0)
        table = [
            (
                title,
                int(some[title].notna().sum()),
                round(float(ranks[title].mean()), 2),
                round(100 * float(above[title].median() - 1), 1),
                int((above[title] <= AS_GOOD).sum()),
                round(float(np.nanmedian(times.loc[some.index, title])), 2),
            )
            for title in some
        ]
        yield Table(
            caption="All tables" if n is None else f"{n} rows per task",
            columns=("method", "tables", "rank", ABOVE, "within 2 %", "seconds"),
            rows=tuple(sorted(table, key=lambda row: row[2])),
            lower_is_better=("rank", ABOVE),
            plot=Plot(labels="method", values="rank") if n is None else None,
        )
    yield Table(
        caption="Losses",
        columns=("table and rows", *frame),
        rows=tuple((key, *(round(v, 4) for v in frame.loc[key])) for key in keys),
    )
    rivals = frame[[title for title in frame if not title.startswith("Sibling")]]
    ratio = float(np.exp(np.log(auto / rivals.min(axis=1)).mean()))
    ranks = frame[[*rivals, AUTO]].rank(axis=1).mean()
    yield Claim(
        text=f"The automatic choice has the best mean rank ({ranks[AUTO]:.2f}; the next "
        f"{ranks.drop(AUTO).min():.2f} of {len(ranks)}).",
        is_confirmed=ranks.idxmin() == AUTO,
    )
    yield Claim(
        text=f"Its loss is {ratio:.3f} of that of the best other package of each table in "
        "hindsight (geometric mean; 1.02 wanted).",
        is_confirmed=ratio <= AS_GOOD,
    )
    yield from _probability_blocks(of(LOG_LOSS), of(BRIER))
    yield from _coverage_blocks(of(COVERAGE)[AUTO], of(LEAST)[AUTO], rows_of)


def _probability_blocks(log_losses: pd.DataFrame, briers: pd.DataFrame) -> Iterator[Block]:
    """Yield the scores of probabilities, relative to those of the automatic choice."""
    log_losses, briers = (one.dropna(how="all").dropna(axis=1) for one in (log_losses, briers))
    relative = [np.exp(np.log(one.div(one[AUTO], axis=0)).mean()) for one in (log_losses, briers)]
    yield Table(
        caption="Probabilities",
        columns=("method", "tables", LOG_LOSS, BRIER),
        rows=tuple(
            (title, len(log_losses), *(round(float(one[title]), 3) for one in relative))
            for title in relative[0].sort_values().index
        ),
    )
    for name, one in ((LOG_LOSS, log_losses), (BRIER, briers)):
        best = one[[title for title in one if not title.startswith("Sibling")]].min(axis=1)
        ratio = float(np.exp(np.log(one[AUTO] / best).mean()))
        yield Claim(
            text=f"Its {name} is {ratio:.3f} of that of the best other package of each table in "
            "hindsight (geometric mean; 1.02 wanted).",
            is_confirmed=ratio <= AS_GOOD,
        )


def _coverage_blocks(
    mean: "pd.Series[float]", least: "pd.Series[float]", rows_of: dict[str, int]
) -> Iterator[Block]:
    """Yield the coverage of intervals and sets of the automatic choice."""
    by_rows = {
        n: [key for key in mean.index if rows_of[key] == n] for n in sorted({*rows_of.values()})
    }
    yield Table(
        caption="Coverage of intervals and sets of 90 %",
        columns=("rows per task", "tables", COVERAGE, "lowest table", LEAST),
        rows=tuple(
            (
                n,
                len(keys),
                *(
                    round(float(v), 3)
                    for v in (mean[keys].mean(), mean[keys].min(), least[keys].min())
                ),
            )
            for n, keys in by_rows.items()
        ),
    )
