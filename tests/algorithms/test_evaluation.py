from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.baselines.discriminants import PCAClassifier, RatioTraceLDA
from algorithms.baselines.kernels import OKL
from algorithms.evaluation import (
    error_rates,
    fold_split,
    folds_of,
    mean_error_rate,
    select_params,
    select_per_task,
    stratified_split,
)
from algorithms.interface.errors import Cancelled, Diverged, InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Checkpoint, Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.requirements import min_train_rows
from algorithms.splits.splits import Splits


def numbered(*counts, name="t") -> Task:
    """Return a task of rows that no other row and no other task has, so many of each class."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = 1000.0 * ord(name[0]) + np.arange(2.0 * len(y)).reshape(-1, 2)
    return Task.from_rows(name, X, y=y)


def clouds(seed=0, *, d=8, n=6, c=3, name="t") -> Task:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(c), n)
    return Task.from_rows(
        name, 2 * rng.standard_normal((c, d))[y] + rng.standard_normal((n * c, d)), y=y
    )


@given(
    counts=st.lists(st.integers(3, 9), min_size=1, max_size=4),
    n_train=st.integers(1, 2),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None)
def test_a_split_is_a_partition_with_equal_classes(counts, n_train, seed) -> None:
    tasks = TaskSet((numbered(*counts), numbered(*counts[::-1], name="u")))
    split = stratified_split(tasks, n_train=n_train, rng=np.random.default_rng(seed))
    for task in tasks:
        train, test = split.train[task.name], split.test[task.name]
        assert np.unique(train.y, return_counts=True)[1].tolist() == [n_train] * len(
            np.unique(task.y)
        )
        rows = np.concatenate([train.X, test.X])
        np.testing.assert_array_equal(rows[np.argsort(rows[:, 0])], task.X)


def test_a_class_too_small_to_split_is_named() -> None:
    with pytest.raises(InvalidData, match="task 't', class '1' has 2 rows, expected at least 3"):
        stratified_split(TaskSet((numbered(5, 2),)), n_train=2, rng=np.random.default_rng(0))


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    n_folds=st.integers(2, 5),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None)
def test_folds_spread_rows_and_leave_every_class_in_every_training_part(
    counts, n_folds, seed
) -> None:
    task = numbered(*counts)
    folds = folds_of(TaskSet((task,)), n_folds=n_folds, seed=seed)["t"]
    n_kept = 0
    for label, count in enumerate(counts):
        own = folds[task.y == label]
        if count == 1:
            assert own.tolist() == [-1]
            continue
        assert max((own == fold).sum() for fold in range(n_folds)) < count
        assert (own == -1).sum() <= 1
        n_kept += (own == -1).sum()
    held = np.bincount(folds[folds >= 0], minlength=n_folds)
    assert held.max() - held.min() <= 1 + n_kept


@pytest.mark.parametrize("splits", [Splits(n_folds=5), Splits(scheme="holdout", n_splits=5)])
def test_classes_of_held_out_rows_say_nothing_about_those_of_training_rows(splits) -> None:
    """Whoever predicts the most frequent class of coins is wrong in half of the held-out rows."""
    rng = np.random.default_rng(0)
    tasks = TaskSet(
        tuple(
            Task.from_rows(f"t{t}", rng.normal(size=(12, 1)), y=rng.integers(0, 2, 12))
            for t in range(300)
        )
    )
    wrong = []
    for held_out in splits.held_out(tasks, range(splits.count()), seed=0):
        for task in tasks:
            is_test = held_out[task.name]
            share = task.y[~is_test].mean()
            wrong += [abs(value - (share > 0.5)) for value in task.y[is_test] if share != 0.5]
    assert np.mean(wrong) == pytest.approx(0.5, abs=0.03)


def test_folds_do_not_depend_on_the_order_of_the_tasks() -> None:
    a, b = numbered(4, 4, name="a"), numbered(3, 5, name="b")
    here = fold_split(TaskSet((a, b)), fold=0, n_folds=2, seed=3)
    there = fold_split(TaskSet((b, a)), fold=0, n_folds=2, seed=3)
    for name in "ab":
        np.testing.assert_array_equal(here.train[name].X, there.train[name].X)


def test_a_task_that_cannot_be_held_out_is_in_the_training_part_only() -> None:
    tasks = TaskSet((numbered(1, 1, name="single"), numbered(4, 4)))
    split = fold_split(tasks, fold=0, n_folds=2, seed=0)
    assert split.train.names == ("single", "t")
    assert split.test.names == ("t",)
    assert fold_split(TaskSet((numbered(1, 1),)), fold=0, n_folds=2, seed=0) is None


def test_error_rates_are_the_share_of_wrong_labels() -> None:
    class Fixed:
        def predict(self, X, *, task):  # noqa: ARG002
            return np.zeros(len(X), dtype=int)

    tasks = TaskSet((numbered(3, 1), numbered(1, 1, name="u")))
    assert error_rates(Fixed(), tasks) == {"t": 0.25, "u": 0.5}
    assert mean_error_rate(Fixed(), tasks) == 0.375


def test_tasks_without_labels_are_rejected() -> None:
    bare = TaskSet((Task.from_rows("bare", np.ones((3, 2))),))
    with pytest.raises(InvalidData, match="'bare' has no class labels"):
        stratified_split(bare, n_train=1, rng=np.random.default_rng(0))


def select(tasks, candidates, *, algorithm=None, trace=None, n_folds=3, **values):
    return select_params(
        algorithm or RatioTraceLDA(),
        tasks,
        candidates,
        n_folds=n_folds,
        trace=trace or Trace(),
        rng=np.random.default_rng(0),
        **values,
    )


def test_the_losses_are_those_of_cross_validation_by_hand() -> None:
    tasks = TaskSet((clouds(1), clouds(2, d=5, name="u")))
    tried = [RatioTraceLDA.Params(d=d) for d in (1, 2)]
    selection = select(tasks, tried)
    seed = int(np.random.default_rng(0).integers(2**32))
    for params, loss in zip(tried, selection.losses, strict=True):
        errors = []
        for fold in range(3):
            split = fold_split(tasks, fold=fold, n_folds=3, seed=seed)
            model = RatioTraceLDA().fit(
                split.train, params, trace=Trace(), rng=np.random.default_rng(0)
            )
            errors.append(
                np.mean([np.mean(model.predict(t.X, task=t.name) != t.y) for t in split.test])
            )
        assert loss == pytest.approx(np.mean(errors))


def test_the_first_of_equal_candidates_is_selected() -> None:
    tried = [PCAClassifier.Params(d=d) for d in (4, 3, 8)]
    far = clouds(3)
    far = Task.from_rows("t", far.X + 100 * far.y[:, None] * np.arange(8), y=far.y)
    selection = select(TaskSet((far,)), tried, algorithm=PCAClassifier())
    assert selection.losses == (0.0, 0.0, 0.0)
    assert selection.params is tried[0]


def test_another_loss_can_be_given() -> None:
    tried = [PCAClassifier.Params(d=d) for d in (1, 2, 3)]
    selection = select(
        TaskSet((clouds(4),)),
        tried,
        algorithm=PCAClassifier(),
        loss=lambda model, tasks: -model.transform(tasks.tasks[0].X, task="t").shape[1],
    )
    assert selection.params is tried[2]
    assert selection.losses == (-1.0, -2.0, -3.0)


def test_a_loss_that_is_not_finite_diverges() -> None:
    with pytest.raises(Diverged):
        select(TaskSet((clouds(4),)), [RatioTraceLDA.Params()], loss=lambda *_: np.nan)


@given(
    n_tasks=st.integers(2, 4), n_samples=st.integers(2, 30), n_folds=st.integers(2, 5),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_tasks_of_the_same_rows_have_the_same_folds(n_tasks, n_samples, n_folds, seed) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 2))
    y = rng.integers(0, 3, size=(n_tasks, n_samples))
    tasks = TaskSet(tuple(Task.from_rows(f"t{t}", X, y=labels) for t, labels in enumerate(y)))
    n_held = []
    holdout = Splits(scheme="holdout", n_splits=1, test_size=1 / n_folds)
    splits = [fold_split(tasks, fold=fold, n_folds=n_folds, seed=seed) for fold in range(n_folds)]
    for split in [*splits, holdout.split(tasks, 0, seed=seed)]:
        if split is None:
            continue
        n_held.append(split.test.tasks[0].n_samples)
        for task in tasks:
            np.testing.assert_array_equal(split.test[task.name].X, split.test.tasks[0].X)
            assert set(split.train[task.name].y) == set(task.y)
            assert n_held[-1] + split.train[task.name].n_samples == n_samples
    assert sum(n_held) <= n_samples * (1 + 1 / n_folds)


def test_tasks_without_rows_to_hold_out_are_rejected() -> None:
    with pytest.raises(InvalidData, match=r"task 't' has only one row, or one row per class"):
        select(TaskSet((numbered(1, 1),)), [RatioTraceLDA.Params()])


def test_a_selection_can_be_cancelled_and_resumed(tmp_path) -> None:
    tasks = TaskSet((clouds(5),))
    tried = [RatioTraceLDA.Params(d=d) for d in (1, 2)]
    whole = select(tasks, tried)
    steps = []
    broken = Trace(
        on_step=steps.append,
        is_cancelled=lambda: len(steps) >= 4,
        checkpoint=Checkpoint(tmp_path / "state", every_s=0.0),
    )
    with pytest.raises(Cancelled):
        select(tasks, tried, trace=broken)
    seen = []
    trace = Trace(on_step=seen.append, checkpoint=Checkpoint(tmp_path / "state", every_s=0.0))
    assert select(tasks, tried, trace=trace).losses == whole.losses
    assert len(seen) == 3  # of six fits three were done
    assert seen[-1].fraction == 1.0


def test_a_selection_sees_no_test_row() -> None:
    # with other numbers and labels in every test row, the choice and its losses stay
    task = clouds(6, n=10)
    split = stratified_split(TaskSet((task,)), n_train=4, rng=np.random.default_rng(1))
    train = {tuple(row) for row in split.train["t"].X}
    X, y = task.X.copy(), task.y.copy()
    for i, row in enumerate(task.X):
        if tuple(row) not in train:
            X[i], y[i] = -99.0, (y[i] + 1) % 3
    spoilt = Task.from_rows("t", X, y=y)
    kept = spoilt.take(np.flatnonzero([tuple(row) in train for row in X]))
    tried = [RatioTraceLDA.Params(d=d) for d in (1, 2)]
    here, there = select(split.train, tried), select(TaskSet((kept,)), tried)
    assert here.losses == there.losses


@pytest.mark.parametrize("name", ["mtfl", "ridge", "mean-regularised", "shared-lasso", "fmtl"])
def test_selection_on_tasks_of_one_row_is_rejected_before_the_fit(name) -> None:
    algorithm = ALGORITHMS[name]
    tasks = TaskSet(
        tuple(Task.from_rows(f"t{i}", np.full((1, 3), 1.0 + i), y=np.ones(1)) for i in range(3))
    )
    params = algorithm.parse({"selection": algorithm.Params.INNER_SELECTION})
    with pytest.raises(InvalidData, match="'t0' and all others have only one row") as rejected:
        algorithm.check_selection(tasks.summaries(), params)
    assert rejected.value.task == "t0"
    with pytest.raises(InvalidData, match=r"^task 't0' has only one row"):
        algorithm.check_selection(tasks.summaries()[:1], params)


@pytest.mark.parametrize(("selection", "expected"), [("given", 1), ("cv", 4)])
def test_selection_needs_two_training_rows_of_one_class(selection, expected) -> None:
    X = np.random.default_rng(0).normal(size=(9, 2))
    tasks = TaskSet((Task.from_rows("a", X, y=np.arange(9) % 3),))
    params = [RatioTraceLDA.Params(selection="given"), RatioTraceLDA.Params(selection=selection)]
    found = min_train_rows(ALGORITHMS["lda-rt"], params, tasks.summaries())
    assert found == expected


class Fragile(RatioTraceLDA):
    """An algorithm whose fit diverges for some numbers of dimensions."""

    def __init__(self, *bad: int) -> None:
        self.bad = bad

    def prepare_fold(self, *args, **values):
        fold = super().prepare_fold(*args, **values)

        def fit(params, trace):
            if params.d in self.bad:
                raise Diverged(f"the objective is nan for d = {params.d}")
            return fold.fit(params, trace)

        return replace(fold, fit=fit)


def select_each(tasks, candidates, *, algorithm):
    chosen, _ = select_per_task(
        algorithm, tasks, candidates, n_folds=3, trace=Trace(), rng=np.random.default_rng(0)
    )
    return chosen


@pytest.mark.parametrize("choose", [select, select_each])
def test_a_failed_candidate_is_recorded_and_not_selected(choose) -> None:
    tasks = TaskSet((clouds(1), clouds(2, d=5, name="u")))
    tried = [RatioTraceLDA.Params(d=d) for d in (1, 2, 3)]
    whole = choose(tasks, tried, algorithm=Fragile())
    assert whole.failed == ()
    assert whole.fit_info == {}
    bad = whole.params.d
    found = choose(tasks, tried, algorithm=Fragile(bad))
    assert [loss == np.inf for loss in found.losses] == [params.d == bad for params in tried]
    assert found.params.d != bad
    others = {p.d: loss for p, loss in zip(tried, found.losses, strict=True) if p.d != bad}
    assert others == {p.d: loss for p, loss in zip(tried, whole.losses, strict=True) if p.d != bad}
    (failed,) = found.fit_info["failed_candidates"]
    assert failed["params"]["d"] == bad
    assert failed["reason"] == f"the objective is nan for d = {bad}"


@pytest.mark.parametrize("choose", [select, select_each])
def test_a_selection_fails_if_every_candidate_fails(choose) -> None:
    tried = [RatioTraceLDA.Params(d=d) for d in (1, 2)]
    with pytest.raises(Diverged, match=r"all 2 candidates failed \(the first, d = 1, gamma = "):
        choose(TaskSet((clouds(1),)), tried, algorithm=Fragile(1, 2))


def test_a_fit_warns_of_candidates_that_failed() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 4))
    tasks = TaskSet(
        tuple(Task.from_rows(f"t{i}", X, y=1e3 * (X[:, i] + rng.normal(size=25))) for i in (0, 1))
    )
    params = OKL.Params(scale="absolute", kernel="linear", selection="cv", grid=(1e-6, 1e-4, 100.0))
    model = OKL().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    (failed,) = model.fit_info["failed_candidates"]
    assert failed["params"] == {"C": 100.0}
    assert "rescale" in failed["reason"]
    assert model.fit_info["C"] < 100
    start = "1 candidate was left out of the selection because the fit failed (the first, C = 100: "
    assert [warning for warning in model.warnings if warning.startswith(start)]
