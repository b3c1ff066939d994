"""Leaderboards of the automatic choice on real data, and how good its choice is on new rows.

Trains `auto` on some random rows of every task of School, Landmine, Parkinsons, the computer
survey, and the digits of MNIST and USPS, each against all others. Prints the leaderboard and
sentences, and scores every contender, fitted with the parameters that it selected, on all other
rows.

    python -m benchmarks.automatic_leaderboard --data FOLDER --rows 20 --budget 60
"""

import argparse
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.errors import Diverged
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from benchmarks.automatic import DATASETS, choose, divide

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, help="folder of the datasets", required=True)
parser.add_argument("--rows", type=int, default=20, help="training rows per task")
parser.add_argument("--budget", type=float, default=60.0, help="processor time per dataset in s")
parser.add_argument("--only", nargs="*", help="datasets, all by default")


def leaderboard(name: str, folder: Path, n_rows: int, budget_s: float) -> None:
    read, metric_name = DATASETS[name]
    metric = METRICS[metric_name]
    train, test = divide(read(folder), n_rows, np.random.default_rng(0))
    splits = Splits(n_folds=5, repeats=1)
    options = AutomaticOptions(metric=metric_name, budget_s=budget_s, splits=splits)
    started = time.monotonic()
    model, report = choose(train, options, seed=0)
    elapsed_s = time.monotonic() - started
    n_train = sum(task.n_samples for task in train)
    print(f"\n{name}: {len(train)} tasks, {n_train} training rows, {elapsed_s:.0f} s")
    fresh = float(np.nanmean([metric.score(model, task) for task in test]))
    print(f"expected {report['estimate']['value']:.4f}, on new rows {fresh:.4f}")
    print("weight  held out            new rows  fit s   contender")
    for row in report["leaderboard"]:
        algorithm = ALGORITHMS[row["algorithm"]]
        params = algorithm.parse(row["params"])
        try:
            model = algorithm.fit(train, params, trace=Trace(), rng=np.random.default_rng(0))
            fresh = float(np.nanmean([metric.score(model, task) for task in test]))
        except Diverged:
            fresh = float("nan")
        held_out = f"{row['value']:.4f} ({row['low']:.4f}, {row['high']:.4f})"
        label = f"{row['algorithm']} {row['role']} {row['variant']}"
        print(f"{row['weight']:6.2f}  {held_out}  {fresh:.4f}  {row['fit_s']:.4f}  {label}")
    pair = report["choice_or_best"]
    second = f"{pair['second']['algorithm']} {pair['second']['role']}"
    print(
        f"choice {pair['first_value']:.4f} against the best row ({second}) "
        f"{pair['second_value']:.4f}: gain {pair['gain']:.4f} ({pair['low']:.4f}, "
        f"{pair['high']:.4f}), p = {pair['p_value']:.3f}, {pair['verdict']}"
    )
    print(*report["sentences"], sep="\n")


if __name__ == "__main__":
    arguments = parser.parse_args()
    with threadpool_limits(1):
        for dataset in arguments.only or DATASETS:
            leaderboard(dataset, arguments.data, arguments.rows, arguments.budget)
