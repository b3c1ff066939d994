"""The automatic choice: weighted by held-out rows only, and honest about it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import confusion_matrix, roc_auc_score

from algorithms.automatic import fit_automatic
from algorithms.baselines.linear.ridge import Ridge
from algorithms.ensemble.contenders import CONTENDERS, contenders_for, contenders_of
from algorithms.ensemble.held_out import RowOptions
from algorithms.ensemble.scores import pooled_roots
from algorithms.ensemble.suitable import find_contenders
from algorithms.evaluation.choice.automatic import AutomaticOptions, report_choice
from algorithms.evaluation.choice.automatic_verdict import _describe_left_out, summarize_choice
from algorithms.evaluation.choice.entries import Entry, Side, Sides
from algorithms.evaluation.comparison.no_verdict import APART, TOGETHER
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.selection.failures import describe_left_out
from algorithms.interface.errors import Cancelled, Diverged, InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Checkpoint, Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.splits.splits import Splits, explain_nothing_held_out
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.preparation.recipe import Recipe
from benchmarks.harness.problems import rare_events
from service.jobs.studies import plans
from sibling.plots.held_out import held_out_rows
from sibling.plots.predictions import describe_confusion, describe_roc
from sibling.plots.source import Source

RMSE = METRICS["rmse"]
#: Methods that fit in milliseconds, of every role.
FAST = ["constant", "ridge", "mean-regularised"]
FEW = Splits(n_folds=5, repeats=1)
#: Options of choices that are repeated on many data sets.
PLAIN = {"algorithms": ["ridge", "mean-regularised"], "splits": FEW}
DATA = Path(__file__).parents[1] / "data"


def linear_tasks(rng, *, n_tasks=6, n=20, d=8, shared=0.0, noise=1.0, signal=1.0) -> TaskSet:
    """Return linear tasks; ``shared`` is the share of coefficients' variance that is common."""
    common = rng.normal(size=d)
    tasks = []
    for t in range(n_tasks):
        w = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=d)
        X = rng.normal(size=(n, d))
        y = signal * X @ w + noise * rng.normal(size=n) + 10 * rng.normal()
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    return TaskSet(tuple(tasks))


def choose(tasks, *, seed=0, recipe=None, new_tasks="refuse", trace=None, **options):
    """Return an automatic choice and the report of the model, as a job makes them."""
    options = AutomaticOptions(**options)
    study = plans.plan_choice(tasks.summaries(), options, new_tasks=new_tasks)
    return fit_automatic(
        study.plan["auto"],
        tasks,
        rows=RowOptions(recipe=recipe),
        seed=seed,
        trace=trace or Trace(),
    )


def auto(tasks, **options):
    """Return the model and the report of an automatic choice."""
    choice, report = choose(tasks, **options)
    return choice.model, {**report["choice"], "predictions": report["predictions"]}


def scores_of(by_task, *, metric="rmse"):
    """Return the scores ``{task: [value in each split]}``."""
    means = [
        float(np.mean([value for value in of_split if value is not None]))
        for of_split in zip(*by_task.values(), strict=True)
    ]
    return {"by_task": {metric: by_task}, "over_rows": {metric: means}}


def entry(name, role, errors, **more):
    """Return a contender with errors ``{task: [in each split]}``, or of two tasks."""
    by_task = errors if isinstance(errors, dict) else {"t": errors, "u": errors}
    return Entry(
        algorithm=name, role=role, variant="", scores=scores_of(by_task), params={}, **more
    )


def report_of(entries, *, model=None, splits=FEW, **options):
    """Return the report of a choice among contenders; the first of a side stands for it."""

    def side(roles):
        found = (one for one in entries if one.role in roles)
        return next((Side(label=one.label(), scores=one.scores) for one in found), None)

    tests = {name: options.pop(name) for name in ("alignment", "n_rows") if name in options}
    chosen = entries[0] if model is None else model
    sides = Sides(
        model=Side(label=chosen.label(), scores=chosen.scores),
        together=side(TOGETHER),
        apart=side(APART),
        multi_task=side(("multi_task",)),
        pooled=side(("pooled",)),
    )
    options = AutomaticOptions(splits=splits, **options)
    report = report_choice(entries, sides, RMSE, options, ratio=0.25, **tests)
    return {**report, "curve": None, "few_rows": []}


def test_the_estimate_is_that_of_the_model_and_the_best_row_is_named_optimistic() -> None:
    a = entry("a", "single_task", [2.0, 4.0])
    b = entry("b", "multi_task", [2.0, 3.5])
    model = entry("ensemble", "multi_task", [4.0, 3.5])
    report = report_of([a, b], model=model)
    assert report["chosen"]["algorithm"] == "ensemble"
    assert report["estimate"]["value"] == pytest.approx(3.75)
    assert [row["value"] for row in report["leaderboard"]] == [2.75, 3.0]
    spread = 4.302652729749464 * np.sqrt(0.125 * (0.5 + 0.25) / 2)  # t quantile, two degrees
    ends = [report["estimate"][end] for end in ("low", "high")]
    assert ends == pytest.approx([3.75 - spread, 3.75 + spread])
    assert [row["n_task_wins"] for row in report["leaderboard"]] == [2, 0]


def test_the_choice_is_compared_with_the_best_row() -> None:
    a = entry("a", "single_task", [3.0, 3.2, 2.8, 3.0])
    b = entry("b", "multi_task", [2.0, 2.1, 1.9, 2.0])
    report = report_of([a, b], model=a)
    pair = report["choice_or_best"]
    assert (pair["first"]["algorithm"], pair["second"]["algorithm"]) == ("a", "b")
    assert pair["gain"] == pytest.approx(-1.0)
    assert pair["verdict"] == "hurts"
    words = str(summarize_choice(report, unsuitable=[], dropped=[]))
    assert "the choice is significantly worse" in words
    report = report_of([a, b], model=b)
    assert report["choice_or_best"]["gain"] == 0
    assert "even so" not in str(summarize_choice(report, unsuitable=[], dropped=[]))


def test_the_methods_of_a_weighted_mean_are_said_with_their_weights() -> None:
    a = entry("a", "single_task", [3.0, 3.2], weight=0.25)
    b = entry("b", "multi_task", [2.0, 2.1], weight=0.75)
    model = entry("ensemble", "multi_task", [2.0, 2.0])
    (first, *_) = summarize_choice(report_of([a, b], model=model), unsuitable=[], dropped=[])[
        "sentences"
    ]
    assert "b (tasks together) 75%, a (each task alone) 25%" in first


@pytest.mark.parametrize("seed", range(3))
def test_squared_errors_of_a_task_are_pooled_over_the_splits(seed) -> None:
    rng = np.random.default_rng(seed)
    errors = [rng.normal(size=n) for n in (3, 1, 4)]
    roots = [float(np.sqrt(np.mean(own**2))) for own in errors]
    values = pooled_roots([*roots, None], np.array([3.0, 1.0, 4.0, 0.0]))
    assert values[3] is None
    pooled = np.sqrt(np.mean(np.concatenate(errors) ** 2))
    assert np.mean(values[:3]) == pytest.approx(pooled)
    # more error in a split has the larger value, whatever its number of rows
    worse = pooled_roots([2 * roots[0], *roots[1:], None], np.array([3.0, 1.0, 4.0, 0.0]))
    assert worse[0] > values[0]
    assert pooled_roots([0.0, 0.0], np.ones(2)) == [0.0, 0.0]
    assert pooled_roots([None], np.zeros(1)) == [None]


def test_held_out_predictions_are_those_of_the_choice_in_each_split() -> None:
    tasks = linear_tasks(np.random.default_rng(2), n_tasks=4, d=3)
    _, report = auto(tasks, algorithms=FAST, seed=7, splits=Splits(n_folds=3, repeats=2))
    assert report["predictions"]["n_rows"] == sum(task.n_samples for task in tasks)
    for task in tasks:
        own = report["predictions"]["tasks"][task.name]
        assert sorted(own["rows"]) == list(range(task.n_samples))  # each once: repeats are not kept
        np.testing.assert_array_equal(own["true"], task.y[own["rows"]])
    # their errors give the score of the choice
    _, once = auto(tasks, algorithms=FAST, seed=7, splits=Splits(n_folds=3, repeats=1))
    errors = []
    for own in once["predictions"]["tasks"].values():
        squares = (np.array(own["predicted"]) - np.array(own["true"])) ** 2
        errors.append(np.sqrt(np.mean(squares)))
    assert np.mean(errors) == pytest.approx(once["estimate"]["value"])


def labelled_tasks(rng, *, n_classes=2) -> TaskSet:
    """Return three tasks of 40 rows with text labels."""
    labels = np.array(["bad", "good", "none"])[:n_classes]
    tasks = []
    for t in range(3):
        X = rng.normal(size=(40, 3))
        codes = np.argmax(X[:, :n_classes] + 0.5 * rng.normal(size=(40, n_classes)), axis=1)
        tasks.append(Task.from_rows(f"t{t}", X, y=labels[codes]))
    return TaskSet(tuple(tasks))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.quick(1)
def test_held_out_predictions_of_classes_give_confusion_and_roc(n_classes) -> None:
    tasks = labelled_tasks(np.random.default_rng(3), n_classes=n_classes)
    options = {"algorithms": ["ridge"], "metric": "error_rate", "seed": 7}
    _, report = auto(tasks, splits=Splits(n_folds=4, repeats=1), **options)
    rows = held_out_rows({"predictions": report["predictions"]})
    wrong = np.mean(np.array(rows.true) != np.array(rows.predicted))
    assert wrong == pytest.approx(report["estimate"]["value"], rel=0.05)  # sizes of folds differ
    labels = sorted(set(np.concatenate([task.y for task in tasks]).tolist()))
    cells = describe_confusion(Source(rows=rows)).tables["cells"]
    found = {(cell["true"], cell["predicted"]): cell["rows"] for cell in cells}
    expected = confusion_matrix(rows.true, rows.predicted, labels=labels)
    assert [[found[a, b] for b in labels] for a in labels] == expected.tolist()
    roc = describe_roc(Source(rows=rows))
    if n_classes == 3:
        assert roc is None
        return
    for task in tasks:
        own = report["predictions"]["tasks"][task.name]
        area = roc_auc_score([label == "good" for label in own["true"]], own["scores"])
        assert f"{task.name} {area:.3f}" in roc.sentence


@pytest.mark.slow
def test_a_choice_of_an_earlier_version_that_waited_is_made_by_a_race() -> None:
    stored = orjson.loads((DATA / "choice_without_numbers_of_rows.json").read_bytes())
    tasks = TaskSet(
        tuple(
            Task.from_rows(name, np.array(X), y=np.array(stored["targets"][name]))
            for name, X in stored["rows"].items()
        )
    )
    plan = stored["plan"]
    assert {"n_inner_folds", "per_task"} <= plan["auto"]["options"].keys()
    part = {**stored["results"][0]["plan"], "of": "auto"}
    result = plans.run_child_job(part, ALGORITHMS["ridge"], tasks, seed=0, trace=Trace())
    assert result["failed"] is None
    assert plans.next_child_jobs(plan, [result]) == ()
    options = {"seed": 0, "trace": Trace()}
    choice, report = fit_automatic(plan["auto"], tasks, rows=RowOptions(), **options)
    assert report["choice"]["metric"] == plan["auto"]["metric"]
    assert choice.model.tasks == tasks.names


def test_the_order_of_the_leaderboard_is_that_of_the_values_that_are_compared() -> None:
    # the second split holds out no row of task u; means over splits of a task come first for b
    a = entry("a", "single_task", {"t": [2.0, 2.0], "u": [3.0, None]})
    b = entry("b", "multi_task", {"t": [3.0, 1.4], "u": [2.6, None]})
    report = report_of([a, b], model=a)
    pair = report["choice_or_best"]
    assert [row["value"] for row in report["leaderboard"]] == pytest.approx([2.1, 2.25])
    assert (pair["first_value"], pair["second_value"]) == pytest.approx((2.25, 2.1))
    assert report["estimate"]["value"] == pytest.approx(2.25)


#: A task with each kind of targets.
LIKE = {
    "numbers": [TaskSummary("t", 20, 3, target="numbers")],
    "classes": [TaskSummary("t", 20, 3, target="classes", n_classes=2, classes=("a", "b"))],
}


def test_roles_agree_with_those_of_the_baselines() -> None:
    roles = {
        name: {one.role for kind in CONTENDERS for one in contenders_of(algorithm, LIKE[kind])}
        for name, algorithm in ALGORITHMS.items()
    }
    for algorithm in ALGORITHMS.values():
        for baseline in algorithm.baselines:
            if "rows" not in baseline.values:
                assert baseline.role in roles[baseline.algorithm], baseline


def test_an_algorithm_has_a_contender_for_each_form_and_alternative() -> None:
    fmtl = contenders_of(ALGORITHMS["fmtl"], LIKE["numbers"])
    assert [one.label for one in fmtl] == ["fmtl rbf", "fmtl linear"]
    assert {one.values["selection"] for one in fmtl} == {"cv"}
    logistic = contenders_of(ALGORITHMS["logistic-regression"], LIKE["classes"])
    assert {one.label: one.role for one in logistic} == {
        "logistic-regression pooled": "pooled",
        "logistic-regression per task": "single_task",
    }
    gp = contenders_of(ALGORITHMS["gp"], LIKE["numbers"])
    assert {one.label: one.role for one in gp} == {
        "gp": "multi_task",
        "gp of logarithms": "multi_task",
        "gp per task": "single_task",
        "gp per task of logarithms": "single_task",
    }
    for kind, own in CONTENDERS.items():
        labels = [one.label for one in own]
        assert len(set(labels)) == len(labels), kind
        sparse = [one.label for one in contenders_for([replace(LIKE[kind][0], n_stored=9)] * 2)]
        assert sparse == labels


def test_contenders_that_do_not_suit_are_left_out_with_the_reason() -> None:
    tasks = linear_tasks(np.random.default_rng(0)).summaries()
    names = ["ridge", "mtfl", "fmtl", "constant", "pca", "mtda"]
    found, left_out = find_contenders(tasks, ALGORITHMS, names, extensions=[], splits=FEW)
    reasons = {one["algorithm"]: one["reason"] for one in left_out}
    assert "no predictions" in reasons["pca"]
    assert {one.algorithm.name for one in found} == {"ridge", "mtfl", "fmtl", "constant"}
    assert set(reasons) == {"pca", "mtda"}


def test_all_algorithms_are_tried_where_those_of_the_race_do_not_suit() -> None:
    labels = labelled_tasks(np.random.default_rng(0))
    first, *others = labels.tasks
    wider = Task.from_rows("wide", np.hstack([first.X, first.X**2]), y=first.y)
    tasks = TaskSet((wider, *others))
    found, _ = find_contenders(tasks.summaries(), ALGORITHMS, None, extensions=[], splits=FEW)
    assert {"constant", "mtda", "lda-rt", "aggregate"} <= {one.algorithm.name for one in found}
    # those of the race learn each set of columns
    assert {"ridge", "gp"} <= {one.algorithm.name for one in found}


@pytest.mark.slow
def test_a_choice_for_tasks_of_different_columns_is_stored_and_answers(tmp_path) -> None:
    labels = labelled_tasks(np.random.default_rng(0))
    first, *others = labels.tasks
    wider = Task.from_rows("wide", np.hstack([first.X, first.X**2]), y=first.y)
    names = ["constant", "lda-rt", "pca-classifier"]
    model, report = auto(TaskSet((wider, *others)), algorithms=names, splits=FEW)
    assert report["estimate"]["value"] < 0.3
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for task in (wider, others[0]):
        p = loaded.predict_proba(task.X, task=task.name)
        np.testing.assert_array_equal(p, model.predict_proba(task.X, task=task.name))
        assert loaded.width("predict", task=task.name) == task.n_features


@pytest.mark.slow
def test_one_method_is_the_model_if_it_is_asked_for() -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=3)
    model, report = auto(tasks, algorithms=FAST, splits=FEW, single=True)
    (row,) = [row for row in report["leaderboard"] if row["weight"]]
    assert row["weight"] == 1.0
    assert model.algorithm == report["chosen"]["algorithm"] == row["algorithm"]
    assert f"Chosen: {row['algorithm']}" in report["sentences"][0]
    assert set(report["leaderboard"][0]) >= {"weight", "loss", "fit_s", "params"}


@pytest.mark.slow  # races
def test_constant_targets_are_a_tie() -> None:
    rng = np.random.default_rng(0)
    y = np.full(20, 3.0)
    tasks = TaskSet(tuple(Task.from_rows(f"t{t}", rng.normal(size=(20, 4)), y=y) for t in range(4)))
    _, report = auto(tasks, algorithms=[*FAST, "gp", "mtfl"], splits=FEW)
    assert {row["value"] for row in report["leaderboard"]} == {0.0}
    assert report["together_or_apart"]["gain"] == 0.0
    assert report["multi_task_or_pooled"]["verdict"] == "equal"


@pytest.mark.slow
def test_two_tasks_of_three_rows_are_enough() -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=2, n=3, d=4)
    _, report = auto(tasks)
    assert {row["algorithm"] for row in report["leaderboard"]} >= {"ridge", "gp", "constant"}
    (left_out,) = [one for one in report["left_out"] if one["algorithm"] == "mixed-model"]
    assert "needs at least 6 rows" in left_out["reason"]


def test_the_reason_why_no_row_is_held_out_is_true() -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=2, n=3, d=4)
    assert "has 3 rows, all of which are needed to train" in explain_nothing_held_out(tasks)
    single = TaskSet(tuple(task.take(np.array([0])) for task in tasks))
    assert "have only one row" in explain_nothing_held_out(single)


@pytest.mark.slow  # a race
def test_a_report_says_why_its_order_is_not_that_of_the_weights_and_which_tasks_count() -> None:
    rng = np.random.default_rng(3)
    tasks = []
    for t in range(9):
        X = rng.normal(size=(12, 3))
        y = np.where(X[:, 0] + 0.5 * rng.normal(size=12) > 0.5, "yes", "no")
        y = np.full(12, "no") if t < 2 else y
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    _, report = auto(TaskSet(tuple(tasks)), algorithms=[*FAST, "logistic-regression"], splits=FEW)
    losses = [row["loss"] for row in report["leaderboard"]]
    (place,) = np.flatnonzero(np.array(losses) == min(losses))
    said = [one for one in report["sentences"] if "log loss of probabilities" in one]
    assert len(said) == (place > 0)
    assert report["alignment"]["n_tasks"] == 7
    (about,) = [one for one in report["sentences"] if "point the same way" in one]
    assert "7 of 9 tasks" in about
    assert "The other 2 do not count: their targets do not differ." in about


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.quick(1)
def test_small_sparse_rows_are_learned_by_methods_that_need_dense_ones(single, tmp_path) -> None:
    rng = np.random.default_rng(0)
    tasks = []
    for t in range(3):
        X = rng.normal(size=(20, 30)) * (rng.random((20, 30)) < 0.2)
        tasks.append(Task.from_rows(f"t{t}", csr_array(X), y=X.sum(axis=1)))
    model, report = auto(TaskSet(tuple(tasks)), algorithms=["gp", "constant"], single=single)
    assert report["chosen"]["algorithm"] == ("gp" if single else "ensemble")
    assert report["alignment"]["n_tasks"] == 3
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    X = tasks[0].X
    assert loaded.takes_sparse
    expected = model.predict(X, task="t0")
    np.testing.assert_array_equal(loaded.predict(X, task="t0"), expected)
    np.testing.assert_allclose(loaded.predict(X.toarray(), task="t0"), expected)


def test_rows_with_gaps_are_prepared_in_each_fold() -> None:
    first, *others = linear_tasks(np.random.default_rng(0), n_tasks=3).tasks
    X = first.X.copy()
    X[::4, 0] = np.nan
    tasks = TaskSet((Task.from_rows("gaps", X, y=first.y, allows_missing=True), *others))
    model, report = auto(tasks, algorithms=FAST, splits=FEW, recipe=Recipe())
    assert np.isfinite(model.predict(X, task="gaps")).all()
    assert report["predictions"]["n_rows"] == sum(task.n_samples for task in tasks)


def test_a_calibration_is_that_of_the_weighted_mean(tmp_path) -> None:
    tasks = labelled_tasks(np.random.default_rng(0))
    choice, _ = choose(tasks, algorithms=["ridge", "mean-regularised", "constant"], splits=FEW)
    algorithm = calibrated(choice.algorithm, {"n_folds": 2, "threshold": {"good": 5}})
    rng = np.random.default_rng(0)
    model = algorithm.fit(tasks, algorithm.parse(choice.values), trace=Trace(), rng=rng)
    rows = tasks.tasks[0].X
    p = model.predict_proba(rows, task="t0")
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(rows, task="t0") == "good", p[:, 1] > 1 / 6)
    own = model.inner.predict(rows, task="t0")
    np.testing.assert_array_equal(own, choice.model.predict(rows, task="t0"))
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(rows, task="t0"), p)


def test_an_interrupted_choice_continues_from_its_checkpoint(tmp_path) -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=3)
    options = {"algorithms": FAST, "splits": FEW}
    choice, report = choose(tasks, **options)
    path, steps = tmp_path / "checkpoint", []
    interrupted = Trace(
        on_step=steps.append,
        is_cancelled=lambda: len(steps) > 25,
        checkpoint=Checkpoint(path, every_s=0.0),
    )
    with pytest.raises(Cancelled):
        choose(tasks, trace=interrupted, **options)
    resumed = Trace(checkpoint=Checkpoint(path), on_step=steps.append)
    n_before = len(steps)
    again, same = choose(tasks, trace=resumed, **options)
    assert "fit constant per task" not in {step.loop for step in steps[n_before:]}
    assert same["choice"]["estimate"] == report["choice"]["estimate"]
    rows = tasks.tasks[0].X
    np.testing.assert_array_equal(
        again.model.predict(rows, task="t0"), choice.model.predict(rows, task="t0")
    )


def test_methods_that_exceed_the_budget_are_named() -> None:
    tasks = linear_tasks(np.random.default_rng(0))
    _, report = auto(tasks, splits=FEW, algorithms=["constant", "ridge"], budget_s=1e-9)
    assert [row["algorithm"] for row in report["leaderboard"]] == ["constant"]
    assert {one["algorithm"] for one in report["left_out"]} == {"constant", "ridge"}
    assert "budget" in report["left_out"][0]["reason"]
    (sentence,) = [one for one in report["sentences"] if one.startswith("Not compared")]
    assert "ridge (all tasks pooled)" in sentence


@pytest.mark.parametrize("n_rows", [1, 6])
def test_tasks_that_cannot_be_scored_are_refused_with_each_reason_once(n_rows) -> None:
    rows = np.ones((n_rows, 2))
    tasks = TaskSet(tuple(Task.from_rows(t, rows, y=np.arange(float(n_rows))) for t in "ns"))
    units = {"n_divisible": 0, "n_units": 1}
    known = [replace(task, **units) for task in tasks.summaries()]
    with pytest.raises(InvalidData) as caught:
        plans.plan_choice(known, AutomaticOptions())
    text = str(caught.value)
    assert len(text) < 2000
    assert text.count("rows that must stay together") == 1
    assert re.search(r"constant, ridge and \d+ more: no split can hold out a row", text)
    assert re.search(r"more: task 'n' has numeric targets; the method needs class labels", text)
    assert text.count("ridge:") + text.count("choose another") + text.count("'given'") == 0


def test_equal_reasons_are_said_once() -> None:
    left_out = [
        {"algorithm": name, "reason": f"{name} needs rows"} for name in ("ridge", "mtfl", "pca")
    ]
    assert describe_left_out(left_out) == "ridge, mtfl, pca: the method needs rows"
    more = [*left_out, {"algorithm": "rmt-pca", "reason": "rmt-pca needs rows"}]
    assert describe_left_out(more) == "ridge, mtfl and 2 more: the method needs rows"
    other = [{"algorithm": "constant", "reason": "too slow"}, *left_out, left_out[0]]
    assert describe_left_out(other).endswith("pca: the method needs rows; constant: too slow")


def test_a_choice_says_why_methods_are_left_out_and_which_tasks_have_no_value() -> None:
    first, *others = rare_events(np.random.default_rng(1), n_tasks=3).new
    without = first.take(np.flatnonzero(first.y == "none"))
    tasks = TaskSet((without, *others))
    names = ["constant", "ridge", "okl", "pca"]
    splits = Splits(scheme="holdout", test_size=0.5, repeats=3)
    _, report = auto(tasks, metric="auc", algorithms=names, splits=splits)
    assert {row["algorithm"] for row in report["leaderboard"]} == {"constant", "ridge"}
    assert report["without_value"] == [without.name]
    (missing,) = [s for s in report["sentences"] if s.startswith("AUC has no value for")]
    assert f"1 of 3 tasks ('{without.name}')" in missing
    (unsuitable,) = [s for s in report["sentences"] if s.startswith("Not suited")]
    reasons = {entry["algorithm"]: entry["reason"] for entry in report["left_out"]}
    assert set(reasons) == {"okl", "pca"}
    for name, reason in reasons.items():
        assert f"{name}: {reason.replace(name, 'the method')}" in unsuitable


def test_methods_left_out_are_named_with_their_variants() -> None:
    entries = [
        {"algorithm": "gp", "role": "multi_task", "variant": "of logarithms", "reason": "too slow"}
    ]
    assert _describe_left_out((), entries) == [
        "Not compared: gp (tasks together, of logarithms): too slow."
    ]


def test_a_contender_that_fails_is_left_out_with_the_reason(monkeypatch) -> None:
    def fail(*_, **__):
        raise Diverged("the objective became infinite")

    monkeypatch.setattr(Ridge, "fit", fail)
    tasks = linear_tasks(np.random.default_rng(0))
    _, report = auto(tasks, splits=FEW, algorithms=["ridge", "constant"])
    assert {row["algorithm"] for row in report["leaderboard"]} == {"constant"}
    assert "infinite" in report["left_out"][0]["reason"]
    with pytest.raises(InvalidData, match="infinite"):
        auto(tasks, splits=FEW, algorithms=["ridge"])


def test_options_and_tasks_that_do_not_fit_are_errors() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidParams, match="did you mean 'ridge'") as caught:
        auto(linear_tasks(rng), algorithms=["constant", "rigde"])
    assert caught.value.field == "algorithms/1"
    bare = TaskSet((Task.from_rows("a", rng.normal(size=(5, 2))),))
    with pytest.raises(InvalidData, match="no targets"):
        auto(bare)
    with pytest.raises(InvalidParams, match="error_rate"):
        auto(linear_tasks(rng), metric="error_rate")
    with pytest.raises(InvalidParams, match="a choice among methods itself") as caught:
        auto(linear_tasks(rng), algorithms=["ensemble"])
    assert caught.value.field == "algorithms/0"


@pytest.mark.slow
def test_related_tasks_are_said_to_gain() -> None:
    verdicts = []
    for seed in range(3):
        tasks = linear_tasks(np.random.default_rng(seed), n_tasks=10, n=10, d=20, shared=0.9)
        _, report = auto(tasks, seed=seed, **PLAIN)
        verdicts.append(report["together_or_apart"]["verdict"])
    assert verdicts.count("helps") >= 2


@pytest.mark.slow
@pytest.mark.parametrize("signal", [1.0, 0.0])
def test_unrelated_tasks_and_noise_are_seldom_said_to_gain(signal) -> None:
    verdicts = []
    for seed in range(6):
        tasks = linear_tasks(np.random.default_rng(100 + seed), n_tasks=3, d=3, signal=signal)
        _, report = auto(tasks, seed=seed, **PLAIN)
        verdicts.append(report["together_or_apart"]["verdict"])
    assert verdicts.count("helps") <= 2  # 3 of 6 at 5 % each: 0.2 %


@pytest.mark.slow
def test_the_estimate_agrees_with_fresh_rows() -> None:
    """The mean of the estimates over data sets is that of the models on new rows."""
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        whole = linear_tasks(rng, n_tasks=6, n=20 + 1000, d=4, shared=0.5)
        tasks = TaskSet(tuple(task.take(np.arange(20)) for task in whole))
        model, report = auto(tasks, seed=seed, algorithms=["ridge", "mean-regularised"])
        fresh = [
            np.sqrt(np.mean((task.y[20:] - model.predict(task.X[20:], task=task.name)) ** 2))
            for task in whole
        ]
        ratios.append(np.log(report["estimate"]["value"] / np.mean(fresh)))
    # models of four fifths of the rows are a little worse
    assert np.exp(np.mean(ratios)) == pytest.approx(1.03, abs=0.06)


def test_the_trace_has_the_best_of_each_kind_so_far_without_a_verdict():
    found = []
    tasks = linear_tasks(np.random.default_rng(3), n_tasks=4, shared=0.9)
    trace = Trace(on_step=lambda step: found.append(step.found.get("race")))
    _, report = choose(tasks, trace=trace, algorithms=FAST, splits=FEW)
    races = [race for race in found if race is not None]
    counts = [race["n_scored"] for race in races]
    assert counts[0] == 1
    assert counts == sorted(counts)
    assert counts[-1] == races[-1]["n_methods"] == len(report["choice"]["leaderboard"])
    assert not any("verdict" in race for race in races)
    values = {
        row["algorithm"] + row["role"]: row["value"] for row in report["choice"]["leaderboard"]
    }
    best = {one["kind"]: one for one in races[-1]["best"]}
    assert list(best) == ["multi_task", "pooled", "single_task", "trivial"]
    for one in best.values():
        assert one["value"] == pytest.approx(values[one["algorithm"] + one["role"]])


def test_a_report_has_a_score_of_each_kind_that_agrees_with_its_verdict():
    tasks = linear_tasks(np.random.default_rng(3), n_tasks=4, shared=0.9)
    choice = choose(tasks, algorithms=FAST, splits=FEW)[1]["choice"]
    kinds = {one["kind"]: one for one in choice["kinds"]}
    assert list(kinds) == ["multi_task", "pooled", "single_task", "trivial"]
    pair, pooled = choice["together_or_apart"], choice["multi_task_or_pooled"]
    assert kinds["multi_task"]["value"] == pair["first_value"]
    assert kinds["single_task"]["value"] == pair["second_value"]
    assert kinds["pooled"]["value"] == pooled["second_value"]
    assert all(one["low"] < one["value"] < one["high"] for one in kinds.values())
    assert kinds["trivial"]["value"] > kinds["multi_task"]["value"]


@pytest.mark.slow
def test_with_one_task_no_sentence_says_how_tasks_are_learned_or_averaged():
    tasks = linear_tasks(np.random.default_rng(1), n_tasks=1, n=40)
    _, report = auto(tasks, algorithms=[*FAST, "fmtl"])
    estimate = [one for one in report["sentences"] if "no verdict" not in one]
    words = "tasks together|each task alone|all tasks pooled|mean over tasks"
    assert not [one for one in estimate if re.search(words, one)]


@pytest.mark.slow  # two races with Gaussian processes
@pytest.mark.parametrize("seed", [0, 2])
def test_what_curves_gain_is_no_gain_of_learning_together(seed) -> None:
    rng, tasks = np.random.default_rng(seed), []
    for t in range(8):
        X, w, phases = rng.normal(size=(40, 3)), rng.normal(size=3), 3 * rng.normal(size=2)
        curves = np.sin(2 * X[:, 0] + phases[0]) + 0.6 * np.cos(2.2 * X[:, 1] + phases[1])
        y = curves + 0.3 * X @ w + 0.2 * rng.normal(size=40)
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    _, report = choose(TaskSet(tuple(tasks)))
    assert report["choice"]["together_or_apart"]["gain"] < 0.12  # with lines alone: .28
