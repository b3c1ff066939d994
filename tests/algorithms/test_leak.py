"""Random labels cannot be predicted: no held-out row is used in a fit or a selection."""

import numpy as np
import pytest

from algorithms.evaluation.scores.metrics import METRICS, metrics_for
from algorithms.evaluation.selection.choices import with_inner_selection
from algorithms.evaluation.selection.paths import fit_candidates
from algorithms.evaluation.selection.validation import score_per_split, score_splits
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits

N_SETS, N_ROWS, WIDTH, N_TASKS, K = 3, 24, 5, 3, 2
#: Scores of guessing on held-out rows: half of the labels, none of the variance of the targets, and
#: for isotropic rows the share of the dimensions that are kept.
CHANCE = {"error_rate": 0.5, "r2": 0.0, "retained_variance": K / WIDTH}
#: Four standard errors of the mean over all rows of all sets.
SLACK = {
    "error_rate": 4 * 0.5 / np.sqrt(N_SETS * N_ROWS * N_TASKS),
    "r2": 4 / np.sqrt(N_SETS * N_ROWS * N_TASKS),
    "retained_variance": 4 * np.sqrt(2 * 0.4 * 0.6 / (N_SETS * N_ROWS * N_TASKS)),
}

CASES = [
    pytest.param(algorithm, metric, id=f"{name}-{metric}")
    for name, algorithm in ALGORITHMS.items()
    for metric, kinds in (
        ("error_rate", ("classes", "any")),
        ("r2", ("numbers", "any")),
        ("retained_variance", ("none",)),
    )
    if algorithm.needs.target in kinds
    if set(METRICS[metric].methods) <= set(algorithm.Model.methods())
    # a curved surface may keep more of the variance than a plane
    if not (metric == "retained_variance" and "L" in algorithm.Params.model_fields)
]


def meaningless(metric, rng, *, is_shared) -> TaskSet:
    X = rng.normal(size=(N_TASKS, N_ROWS, WIDTH))
    if is_shared:
        X[:] = X[0]
    y = {
        "error_rate": lambda: np.array(["no", "yes"])[rng.permutation(N_ROWS) % 2],
        "r2": lambda: rng.normal(size=N_ROWS),
        "retained_variance": lambda: None,
    }[metric]
    return TaskSet(tuple(Task.from_rows(f"t{t}", rows, y=y()) for t, rows in enumerate(X)))


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "metric"), CASES)
def test_no_held_out_row_can_be_predicted_from_random_labels(algorithm, metric) -> None:
    fixed = {"k": K} if metric == "retained_variance" else {}
    params = with_inner_selection(
        algorithm, {n: v for n, v in fixed.items() if n in algorithm.Params.model_fields}
    )
    fields = algorithm.Params.model_fields
    if "n_folds" in fields:
        params["n_folds"] = 2
    for grid in algorithm.Params.GRIDS.values():  # a choice of two is a choice
        params[grid] = [fields[grid].default[0], fields[grid].default[-1]]
    found = []
    for seed in range(N_SETS):
        tasks = meaningless(
            metric, np.random.default_rng(seed), is_shared=algorithm.needs.shared_rows
        )
        (scores,) = score_splits(
            fit_candidates(algorithm, [params]),
            tasks,
            Splits(n_folds=3, repeats=1),
            range(3),
            metrics=metrics_for([algorithm], tasks.tasks),
            seed=seed,
            trace=Trace(),
        )
        found += score_per_split(scores, metric, "rows")
    assert len(found) == 3 * N_SETS
    sign = 1 if METRICS[metric].larger_is_better else -1
    assert sign * (np.mean(found) - CHANCE[metric]) < SLACK[metric]
