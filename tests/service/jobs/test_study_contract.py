"""An accepted study ends with values; otherwise it is rejected when submitted."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from algorithms.evaluation.comparison.comparison import CompareOptions, EvaluateOptions
from algorithms.evaluation.selection.search import SearchOptions
from algorithms.interface.errors import AlgorithmError, Diverged, InvalidData
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from service.datasets.canonical import read_tasks, write_tasks
from service.datasets.manifest import summaries
from service.jobs.studies import plans

pytestmark = pytest.mark.slow  # every kind of study of every algorithm

N, D = 8, 4
SPLITS = Splits(n_folds=2, repeats=1)


def rows(seed: int, *, n: int = N, d: int = D) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def numbers(X) -> np.ndarray:
    return X[:, 0] + 0.1 * X[:, 1]


def classes(X) -> np.ndarray:
    return np.where(np.arange(len(X)) % 2 == 0, "no", "yes")


def same_for_all(y, *, n: int = N) -> list[Task]:
    made = [rows(t, n=n) for t in range(3)]
    return [Task.from_rows(f"t{t}", X, y=y(X)) for t, X in enumerate(made)]


def shared(y, *, is_permuted: bool = False) -> list[Task]:
    X, made = rows(0), []
    for t in range(3):
        own = X[np.roll(np.arange(N), t)] if is_permuted else X
        made.append(Task.from_rows(f"t{t}", own, y=y(np.roll(own, t, axis=1))))
    return made


def covariances() -> list[Task]:
    made = [rows(t, n=3 * N).reshape(3, N, D) for t in range(3)]
    return [Task.from_covariances(f"t{t}", [x.T @ x for x in X]) for t, X in enumerate(made)]


def labelled_and_bare(first: str, second: str) -> list[Task]:
    source, target = rows(0, n=12), rows(1)
    tasks = {
        "source": Task.from_rows("source", source, y=classes(source)),
        "target": Task.from_rows("target", target),
    }
    return [tasks[first], tasks[second]]


KINDS = {
    "no targets": lambda: same_for_all(lambda _: None),
    "numbers": lambda: same_for_all(numbers),
    "classes": lambda: same_for_all(classes),
    "mixed kinds": lambda: [*same_for_all(classes)[:1], *same_for_all(numbers)[1:]],
    "mixed kinds, other order": lambda: [*same_for_all(numbers)[:1], *same_for_all(classes)[1:]],
    "labelled source first": lambda: labelled_and_bare("source", "target"),
    "labelled source last": lambda: labelled_and_bare("target", "source"),
    "covariances": covariances,
    "one class": lambda: same_for_all(lambda X: np.repeat("only", len(X))),
    "tasks of one row": lambda: same_for_all(numbers, n=1),
    "tasks of two rows": lambda: same_for_all(classes, n=2),
    "tasks of three rows": lambda: same_for_all(numbers, n=3),
    "shared rows, classes": lambda: shared(classes),
    "shared rows, numbers": lambda: shared(numbers),
    "permuted rows": lambda: shared(numbers, is_permuted=True),
    "different columns": lambda: [
        Task.from_rows(f"t{d}", X := rows(d, d=d), y=classes(X)) for d in (3, 4, 6)
    ],
    "constant targets": lambda: same_for_all(lambda X: np.full(len(X), 0.1)),
    "equal rows": lambda: [Task.from_rows(t, np.ones((N, D)), y=classes(range(N))) for t in "ab"],
    "one group": lambda: [
        Task.from_rows(t, X := rows(3), y=numbers(X), groups=["p"] * N) for t in "ab"
    ],
}


@cache
def stored(kind: str) -> tuple[TaskSet, tuple[TaskSummary, ...]]:
    """Return the tasks and their summaries, as read from an upload."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "content"
        manifest = write_tasks(path, KINDS[kind]())
        found = read_tasks(path, manifest)
        kept = TaskSet(tuple(task.take(np.arange(task.n_samples)) for task in found))
        return kept, summaries(manifest)


def options(algorithm, what: str) -> plans.StudyOptions:
    """Return the options of a study; a search tries one value of one parameter."""
    if what == "search":
        fields = algorithm.Params.model_fields
        name = next(iter([*algorithm.Params.GRIDS, *fields]))
        space = {name: [fields[name].default]}
        return plans.StudyOptions(search=SearchOptions(space=space, n_folds=2))
    if what == "compare":
        return plans.StudyOptions(compare=CompareOptions(splits=SPLITS))
    return plans.StudyOptions(evaluate=EvaluateOptions(splits=SPLITS))


def cheap(algorithm) -> dict:
    """Return parameters for a short fit."""
    fields = algorithm.Params.model_fields
    values = {"max_iter": 5, "selection": "given", "r": 4, "n_init": 1}
    return {name: value for name, value in values.items() if name in fields}


def leaves(value) -> list:
    """Return every number in a report."""
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value] if isinstance(value, float) else []


#: One or two of each family have every kind of study. A comparison also evaluates its algorithm.
STUDIED = {
    *("rmt-pca", "mtda", "lda-tr", "fmtl", "kernel-graph", "okl", "tlvm", "transfer-pca", "mtfl"),
    *(
        "ridge",
        "logistic-regression",
        "gmtl",
        "gp",
        "mixed-model",
        "nearest-neighbours",
        "constant",
    ),
}
CASES = [
    (name, what)
    for name, algorithm in ALGORITHMS.items()
    for what in ("evaluate", "evaluate a choice", "compare", "search")
    if what == "compare" or name in STUDIED
    if what != "evaluate a choice" or "selection" in algorithm.Params.model_fields
    if what != "search" or algorithm.Params.model_fields
]


@pytest.mark.parametrize(("name", "what"), CASES)
def test_a_study_is_rejected_or_has_values(name, what) -> None:
    # one test for all kinds, as most of the 2,000 studies take a few milliseconds
    algorithm, values = ALGORITHMS[name], cheap(ALGORITHMS[name])
    if what == "evaluate a choice":
        values["selection"] = algorithm.Params.INNER_SELECTION
    study_options = options(algorithm, what)
    searched = study_options.search.space if study_options.search else {}
    values = {k: v for k, v in values.items() if k not in searched}
    assert {
        kind: wrong for kind in KINDS if (wrong := run(algorithm, values, kind, study_options))
    } == {}


def run(algorithm, values, kind: str, study_options: plans.StudyOptions) -> list:
    """Return what is wrong with a study that is accepted: failures and numbers without a value."""
    tasks, known = stored(kind)
    try:
        params = algorithm.parse(values)
        algorithm.check_held_out(params)
        algorithm.check(known, params)
        study = plans.plan_job(algorithm, values, known, study_options, seed=0)
    except AlgorithmError:
        return []
    results, children = [], study.child_jobs
    while children:
        try:
            results += [
                plans.run_child_job(
                    one.plan, ALGORITHMS[one.algorithm], tasks, seed=0, trace=Trace()
                )
                for one in children
            ]
        except InvalidData as error:  # no summary says that all rows of a task are equal
            return [] if "are equal" in error.message else [error.message]
        children = plans.next_child_jobs(study.plan, results)
    _, report = plans.combine_results(study.plan, results, tasks)
    not_finite = [leaf for leaf in leaves(report) if not math.isfinite(leaf)]
    return not_finite + [one["failed"] for one in results if one["failed"] is not None]


def test_rows_in_another_order_are_rejected_where_they_must_be_equal() -> None:
    for kind, is_fitting in (("shared rows, numbers", True), ("permuted rows", False)):
        _, known = stored(kind)
        for name in ("okl", "convex-okl"):
            algorithm = ALGORITHMS[name]
            if is_fitting:
                algorithm.check(known, algorithm.parse({}))
                continue
            with pytest.raises(AlgorithmError, match="'t1' has different rows than task 't0'"):
                algorithm.check(known, algorithm.parse({}))


def test_the_deciding_metric_has_values_for_all_tasks() -> None:
    for kind in ("labelled source first", "labelled source last"):
        tasks, known = stored(kind)
        algorithm = ALGORITHMS["tlvm"]
        study = plans.plan_job(
            algorithm,
            cheap(algorithm),
            known,
            plans.StudyOptions(evaluate=EvaluateOptions(splits=SPLITS)),
            seed=0,
        )
        results = [
            plans.run_child_job(child.plan, algorithm, tasks, seed=0, trace=Trace())
            for child in study.child_jobs
        ]
        report = plans.combine_results(study.plan, results, tasks)[1]["evaluation"]
        assert set(report["by_task"]) >= {"reconstruction_error", "error_rate"}
        assert report["by_task"]["error_rate"]["target"] is None
        assert report["by_task"]["error_rate"]["source"] is not None
        assert report["by_task"]["reconstruction_error"]["target"] is not None
        assert next(iter(report["by_task"])) == "reconstruction_error"


@pytest.mark.parametrize(
    ("name", "kind", "splits", "message"),
    [
        ("okl", "shared rows, numbers", Splits(given=[{"t0": [1]}]), "different rows of task 't1'"),
        ("pca", "numbers", Splits(given=[{"t1": list(range(7))}]), "leaves 1 row of task 't1'"),
        ("pca", "tasks of two rows", SPLITS, "each task has one row per class"),
        ("ridge", "numbers", Splits(scheme="holdout", test_size=0.01), "or hold out more"),
        ("ridge", "one group", SPLITS, "rows that must stay together"),
        ("rmt-pca", "covariances", SPLITS, "'t0' has covariance matrices"),
    ],
)
def test_an_impossible_evaluation_is_rejected_with_the_reason(name, kind, splits, message) -> None:
    _, known = stored(kind)
    study_options = plans.StudyOptions(evaluate=EvaluateOptions(splits=splits))
    with pytest.raises(AlgorithmError, match=message) as rejected:
        plans.plan_job(ALGORITHMS[name], cheap(ALGORITHMS[name]), known, study_options, seed=0)
    assert rejected.value.place == "evaluate"


CLASS_OF_ROW = {
    "two classes": np.array(["a", "b"] * 6),
    "three classes": np.array(["a", "b", "c"] * 4),
}


@pytest.mark.parametrize("what", ["evaluate", "compare"])
@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("labels", CLASS_OF_ROW)
def test_splits_without_a_class_are_rejected_or_have_values(labels, is_shared, what) -> None:
    y = CLASS_OF_ROW[labels]
    tasks = TaskSet(
        tuple(Task.from_rows(f"t{t}", rows(0 if is_shared else t, n=12), y=y) for t in range(3))
    )
    of_a = np.flatnonzero(y == "a").tolist()
    without_a = {f"t{t}": of_a for t in range(3)} if is_shared else {"t1": of_a}
    expected = (
        "split 1 of 'given' (counted from 0) holds out every row of class 'a' of task "
        f"'{'t0' if is_shared else 't1'}'"
    )
    found = {
        name: study_without_a_class(algorithm, tasks, without_a, what)
        for name, algorithm in ALGORITHMS.items()
    }
    rejected = {name: reason for name, reason in found.items() if reason is not None}
    assert {n: reason for n, reason in rejected.items() if not reason.startswith(expected)} == {}
    if labels == "two classes":  # the other rows of the task are of one class
        assert rejected == {}


def study_without_a_class(algorithm, tasks: TaskSet, without_a, what: str) -> str | None:
    """Return why a split without a class is rejected or fails; None if it has values.

    None also if the tasks do not suit the algorithm without that split.
    """
    some = {task: [0, 1] for task in without_a}
    values, known = cheap(algorithm), tasks.summaries()
    try:
        algorithm.check(known, algorithm.parse(values))
        plans.plan_job(algorithm, values, known, given(what, Splits(given=[some])), seed=0)
    except AlgorithmError:
        return None
    try:
        study = plans.plan_job(
            algorithm, values, known, given(what, Splits(given=[some, without_a])), seed=0
        )
    except AlgorithmError as error:
        return error.message
    results = [
        plans.run_child_job(one.plan, ALGORITHMS[one.algorithm], tasks, seed=0, trace=Trace())
        for one in study.child_jobs
    ]
    return next((f"failed: {one['failed']}" for one in results if one["failed"] is not None), None)


def given(what: str, splits: Splits) -> plans.StudyOptions:
    if what == "compare":
        return plans.StudyOptions(compare=CompareOptions(splits=splits))
    return plans.StudyOptions(evaluate=EvaluateOptions(splits=splits))


def test_a_dataset_without_hashes_is_checked_in_the_fit() -> None:
    tasks, known = stored("permuted rows")
    old = [replace(task, rows_hash=None, n_divisible=None) for task in known]
    okl = ALGORITHMS["okl"]
    okl.check(old, okl.parse({}))
    with pytest.raises(AlgorithmError, match="rows"):
        okl.fit(tasks, okl.parse({}), trace=Trace(), rng=np.random.default_rng(0))


def test_a_baseline_that_diverges_is_left_out_and_a_candidate_is_not() -> None:
    tasks, _ = stored("shared rows, numbers")
    large = TaskSet(tuple(Task.from_rows(task.name, task.X, y=1e10 * task.y) for task in tasks))
    plan = {
        "of": plans.COMPARISON,
        "method": 1,
        "param_sets": [{"scale": "absolute"}],
        "splits": SPLITS.model_dump(mode="json"),
        "indices": [0],
        "search": None,
    }
    values = {"seed": 0, "trace": Trace()}
    found = plans.run_child_job(plan, ALGORITHMS["okl"], large, **values)
    assert "targets up to" in found["failed"]
    with pytest.raises(Diverged, match="targets up to"):
        plans.run_child_job({**plan, "method": 0}, ALGORITHMS["okl"], large, **values)
