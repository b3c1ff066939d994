"""Error rates and power of the verdict on learning together, on made tasks.

Six kinds of unrelated tasks, on which learning together cannot find a common function, and four
kinds of related ones; 5 to 20 tasks of 6 to 15 rows and 4 to 30 columns, every other set with t3
noise. One method of each side competes in 5 folds: `ridge` of each task alone, and
`mean-regularised`, whose limit is one function for all tasks.

- `alignment`: share of sets in which the sign test has p < .025, or p < .01.
- `helps`: share of sets in which the verdict is "very likely helps" or "probably helps".
- `before`: share with "helps", and with "hurts", by the corrected t test of held-out scores alone,
  as until 0.3.0.

    python -m benchmarks sharing_verdict
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.choice.entries import Side
from algorithms.evaluation.choice.sharing import gain_of_sharing, gain_test, sharing_verdict
from algorithms.evaluation.comparison.families import verdict_of
from algorithms.evaluation.scores.gains import gain_of
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.selection.validation import score_per_split, score_splits
from algorithms.gp.alone import alignment_of
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table

NULLS: Final = ("unrelated", "noise", "unequal scales", "skewed", "correlated", "curved")
#: Share of the variance of coefficients that is common.
RELATED: Final = {"weak": 0.3, "half of the tasks": 0.9, "related": 0.9, "same": 1.0}
#: Tasks, rows per task, columns.
SHAPES: Final = ((5, 8, 4), (6, 15, 8), (8, 10, 8), (12, 12, 8), (20, 6, 30))
OPTIONS: Final = AutomaticOptions(splits=Splits(n_folds=5, repeats=1))
METHODS: Final[tuple[tuple[str, Any, dict[str, Any]], ...]] = (
    ("mean-regularised", "multi_task", {}),
    ("ridge", "single_task", {}),
)
#: Largest share of 'helps' on unrelated tasks, and smallest on related ones of 12 tasks.
MAX_FALSE: Final = 0.04
MIN_POWER: Final = 0.85


def made(kind: str, rng: np.random.Generator, *, shape: Sequence[int], heavy: bool) -> TaskSet:
    """Return tasks of a kind with means of their own; ``heavy``: with t3 noise."""
    n_tasks, n, d = shape
    common, loadings = rng.normal(size=d), rng.normal(size=d)
    tasks = []
    for t in range(n_tasks):
        is_alone = kind == "half of the tasks" and t % 2
        shared = 0.0 if is_alone else RELATED.get(kind, 0.0)
        w = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=d)
        X = rng.normal(size=(n, d))
        noise = rng.standard_t(3, size=n) / np.sqrt(3) if heavy else rng.normal(size=n)
        if kind == "correlated":
            X = 0.5 * X + 2 * rng.normal(size=(n, 1)) * loadings
        if kind == "skewed":
            X, noise = np.exp(X), np.exp(noise.clip(-3, 3))
        f = (X**2 - 1) @ w / np.sqrt(2) if kind == "curved" else X @ w
        y = (kind != "noise") * f / np.sqrt(d) + 0.7 * noise
        y *= np.exp(rng.normal()) if kind == "unequal scales" else 1.0
        tasks.append(Task.from_rows(f"t{t}", X, y=y + 5 * rng.normal()))
    return TaskSet(tuple(tasks))


def side(tasks: TaskSet, method: tuple[str, Any, dict[str, Any]], *, seed: int) -> Side:
    """Return a method that was scored in the splits."""
    name, role, values = method
    algorithm = ALGORITHMS[name]
    params = algorithm.parse({**values, "selection": algorithm.Params.INNER_SELECTION})

    def fit(train: TaskSet, rng: np.random.Generator) -> list[Any]:
        return [algorithm.fit(train, params, trace=Trace(), rng=rng)]

    (scores,) = score_splits(
        fit, tasks, OPTIONS.splits, range(OPTIONS.splits.count()), metrics=[METRICS["rmse"]],
        seed=seed, trace=Trace(),
    )  # fmt: skip
    return Side(label={"algorithm": name, "role": role, "variant": ""}, scores=scores)


def judged(kind: str, n_sets: int) -> Iterator[tuple[tuple[int, ...], dict[str, bool]]]:
    """Yield the shape of each made set, and what is said of it."""
    metric = METRICS["rmse"]
    for seed in range(n_sets):
        shape = SHAPES[seed % len(SHAPES)]
        rng = np.random.default_rng([seed, *map(ord, kind)])
        tasks = made(kind, rng, shape=shape, heavy=seed // len(SHAPES) % 2 == 1)
        alignment = alignment_of(tasks, rng, trace=Trace())
        assert alignment is not None
        together, apart = (side(tasks, method, seed=seed) for method in METHODS)
        ratio = OPTIONS.splits.ratio(tasks)
        ours, theirs = (score_per_split(one.scores, "rmse", "tasks") for one in (together, apart))
        gain = gain_of(ours, theirs, metric, ratio=ratio)
        before = verdict_of(gain_test(gain, min_effect=OPTIONS.min_effect))
        size = gain_of_sharing(together.scores, apart.scores, metric, "tasks", ratio=ratio)
        certainty = sharing_verdict(size, alignment, min_effect=OPTIONS.min_effect).certainty
        yield (
            shape,
            {
                "p < .025": alignment.p_value < 0.025,
                "p < .01": alignment.p_value < 0.01,
                "very likely": certainty == "very likely",
                "probably": certainty == "probably",
                "before: helps": before == "helps",
                "before: hurts": before == "hurts",
            },
        )


def run(context: Context) -> list[Block]:
    """Return the shares of verdicts on unrelated and related tasks."""
    with threadpool_limits(1):
        return _measured(context)


def _measured(context: Context) -> list[Block]:
    n_null, n_related = (10, 5) if context.is_quick else (200, 50)
    rows: list[tuple[Any, ...]] = []
    blocks: list[Block] = []
    largest, few_rows = 0.0, []
    for kind in (*NULLS, *RELATED):
        found = list(judged(kind, n_null if kind in NULLS else n_related))
        names = list(found[0][1])
        shares = {name: float(np.mean([said[name] for _, said in found])) for name in names}
        helps = shares["very likely"] + shares["probably"]
        rows.append(
            (kind, len(found), *(round(shares[name], 3) for name in names), round(helps, 3))
        )
        if kind in NULLS:
            largest = max(largest, helps)
        elif kind == "related":
            few_rows = [
                said["very likely"] or said["probably"] for shape, said in found if shape[0] == 12
            ]
    columns = ("tasks", "sets", *names, "helps")
    blocks.append(Table(columns=columns, rows=tuple(rows)))
    if not context.is_quick:
        power = float(np.mean(few_rows))
        blocks += [
            Claim(
                text=f"On each kind of unrelated tasks at most {MAX_FALSE:.0%} are said to gain.",
                is_confirmed=largest <= MAX_FALSE,
            ),
            Claim(
                text=f"Of related sets of 12 tasks of 12 rows at least {MIN_POWER:.0%} are said to "
                "gain.",
                is_confirmed=power >= MIN_POWER,
            ),
        ]
    return blocks
