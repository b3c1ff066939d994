"""Training of trees by LightGBM, in steps that a fit can repeat after an interruption."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.baselines.boosted_trees.forest import Forest, parse_lightgbm
from algorithms.baselines.boosted_trees.params import BoostedTreesParams
from algorithms.interface.errors import NotInstalled
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import LoopState, Trace
from algorithms.interface.weights import joint_weights
from algorithms.numerics.arrays import Array

Indices = NDArray[np.int64]

#: Rows by which the order of tasks is drawn to 0 before a split separates them, and the l2 of its
#: leaves. The defaults of LightGBM, 10, hide tasks of five rows from the trees.
TASK_SMOOTH: Final = 3.0
TASK_L2: Final = 1.0
#: Trees between two reports of progress.
CHUNK: Final = 20
_MISSING: Final = (
    "boosted-trees are trained by the package lightgbm, which cannot be imported here ({}); "
    "install it with: pip install lightgbm"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChunkState(LoopState):
    """Number of chunks of trees that are trained; the objective is the share that is left."""

    n_done: int


@dataclass(frozen=True, slots=True, eq=False)
class TreeProblem:
    """The rows of one model.

    Parameters
    ----------
    rows : (n, d)
        Standardised rows.
    category : (n,) or None
        Task of each row, for pooled rows.
    n_categories
        Number of tasks of pooled rows; 0 without them.
    y : (n,)
        Scaled numbers, or positions of classes.
    n_classes
        0 for numbers.
    weights : (n,) or None
        Weights of the losses of the rows; equal by default.
    """

    rows: Array
    category: Indices | None
    n_categories: int
    y: Array
    n_classes: int
    weights: Array | None

    @property
    def n_scores(self) -> int:
        """Number of trees of each step: one for each class if there are more than two."""
        return self.n_classes if self.n_classes > 2 else 1


def check_installed() -> None:
    """Raise NotInstalled if LightGBM is not installed."""
    if find_spec("lightgbm") is None:
        raise NotInstalled(_MISSING.format("it is not installed"))


def train(
    problems: Sequence[TreeProblem],
    params: BoostedTreesParams,
    *,
    n_trees: int,
    trace: Trace,
    loop: str,
) -> list[Forest]:
    """Return the trees of each problem, trained as one loop.

    Training is deterministic, so that a resumed fit trains the finished chunks again, without
    reports.

    Parameters
    ----------
    n_trees
        Maximum number of trees of each class.
    loop
        Name of the loop in the trace.
    """
    n_chunks = -(-n_trees // CHUNK)
    boosters: list[Any] = []

    def advance_to(n_done: int) -> None:
        """Train until the given number of chunks is done."""
        for done in range(_n_done(boosters, n_chunks), n_done):
            which, chunk = divmod(done, n_chunks)
            if chunk == 0:
                boosters.append((_booster(problems[which], params), []))
            booster, chunks = boosters[which]
            for _ in range(min(CHUNK, n_trees - chunk * CHUNK)):
                if booster.update():  # no leaf can be split any more
                    break
            chunks.append(chunk)

    def step(state: _ChunkState) -> _ChunkState:
        advance_to(state.n_done + 1)
        left = 1 - (state.n_done + 1) / total
        return _ChunkState(objective=left, residual=left, n_done=state.n_done + 1)

    total = n_chunks * len(problems)
    start = _ChunkState(objective=1.0, residual=1.0, n_done=0)
    trace.run(loop, step, start, max_iter=total, tolerance=0.0)
    advance_to(total)
    return [
        parse_lightgbm(booster.model_to_string(), n_categories=problem.n_categories)
        for (booster, _), problem in zip(boosters, problems, strict=True)
    ]


def _n_done(boosters: Sequence[Any], n_chunks: int) -> int:
    return (len(boosters) - 1) * n_chunks + len(boosters[-1][1]) if boosters else 0


def _booster(problem: TreeProblem, params: BoostedTreesParams) -> Any:
    """Return a booster without trees."""
    try:
        lightgbm = importlib.import_module("lightgbm")
    except (ImportError, OSError) as error:  # OSError: a library such as libgomp is missing
        raise NotInstalled(_MISSING.format(error)) from None
    if problem.n_classes == 0:
        objective: dict[str, Any] = {"objective": "regression"}
    elif problem.n_classes == 2:
        objective = {"objective": "binary"}
    else:
        objective = {"objective": "multiclass", "num_class": problem.n_classes}
    settings = {
        **objective,
        "learning_rate": params.learning_rate,
        "num_leaves": params.n_leaves,
        "min_data_in_leaf": params.min_rows,
        "min_data_in_bin": 1,
        "lambda_l2": params.l2,
        "min_data_per_group": params.min_rows,
        "cat_smooth": TASK_SMOOTH,
        "cat_l2": TASK_L2,
        "use_missing": False,
        "metric": "none",
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "seed": 0,
        "verbosity": -1,
    }
    rows, categorical = problem.rows, []
    if problem.category is not None:
        rows = np.column_stack([rows, problem.category])
        categorical = [rows.shape[1] - 1]
    data = lightgbm.Dataset(
        rows,
        problem.y,
        weight=problem.weights,
        categorical_feature=categorical,
        params=settings,
        free_raw_data=False,
    )
    return lightgbm.Booster(settings, data)


def problem_of(
    tasks: Sequence[Task],
    *,
    mean: Array,
    scale: Array,
    center: float,
    unit: float,
    is_pooled: bool,
    positions: dict[str, int],
    classes: tuple[Any, ...],
) -> TreeProblem:
    """Return the problem of the rows of some tasks.

    Parameters
    ----------
    mean, scale : (d,)
        Standardised rows are (x − mean) / scale.
    center, unit
        Scaled numbers are (y − center) / unit.
    positions
        Category of each task.
    classes
        Labels of the tasks, sorted; empty for numbers.
    """
    rows = np.concatenate([(task.X - mean) / scale for task in tasks])
    category = None
    if is_pooled:
        sizes = [task.n_samples for task in tasks]
        category = np.repeat([positions[task.name] for task in tasks], sizes).astype(np.int64)
    targets = np.concatenate([np.asarray(task.y) for task in tasks])
    n_categories = len(positions) if is_pooled else 0
    weights = joint_weights(TaskSet(tuple(tasks)))
    if tasks[0].target == "numbers":
        y = (targets.astype(np.float64) - center) / unit
        return TreeProblem(rows, category, n_categories, y, 0, weights)
    y = np.searchsorted(np.array(classes), targets).astype(np.float64)
    problem = TreeProblem(rows, category, n_categories, y, len(classes), weights)
    return _without_features(problem) if (y == y[0]).all() else problem


def _without_features(problem: TreeProblem) -> TreeProblem:
    """Return the problem of a task of a single class: constant trees, with finite log-odds.

    Half a row of each other class is added, as for a logistic regression
    (:meth:`algorithms.families.linear.design.Design.with_opposite_rows`), and no column can split.
    """
    others = np.setdiff1d(np.arange(problem.n_classes), problem.y[:1]).astype(np.float64)
    weights = np.ones(len(problem.y)) if problem.weights is None else problem.weights
    return replace(
        problem,
        rows=np.zeros((len(problem.y) + len(others), problem.rows.shape[1])),
        category=None,
        y=np.concatenate([problem.y, others]),
        weights=np.concatenate([weights, np.full(len(others), 0.5)]),
    )
