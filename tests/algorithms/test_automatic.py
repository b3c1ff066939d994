"""The automatic choice: chosen by inner scores only, and honest about it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score

from algorithms.baselines.linear.ridge import Ridge
from algorithms.evaluation.choice.automatic import AutomaticOptions, report_choice
from algorithms.evaluation.choice.automatic_verdict import _describe_left_out, summarize_choice
from algorithms.evaluation.choice.contenders import contenders_of, find_contenders
from algorithms.evaluation.choice.per_task import tasks_together
from algorithms.evaluation.choice.pipelines import Entry, choose
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.selection.failures import describe_left_out
from algorithms.evaluation.selection.nested import default_inner_folds
from algorithms.interface.errors import Diverged, InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.problems import rare_events
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from service.jobs.studies import plans
from service.jobs.studies.automatic_rounds import admit
from sibling.plots.held_out import held_out_rows
from sibling.plots.predictions import describe_confusion, describe_roc
from sibling.plots.source import Source

RMSE = METRICS["rmse"]
#: Methods that fit in milliseconds, of every role.
FAST = ["constant", "ridge", "mean-regularised"]
FEW = Splits(n_folds=5, repeats=1)
#: Options of choices that are repeated on many data sets.
PLAIN = {"algorithms": ["ridge", "mean-regularised"], "splits": FEW, "n_inner_folds": 2}
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


def auto(tasks, *, seed=0, **options):
    """Return the parameters and the report of an automatic choice, as a job does it."""
    options = AutomaticOptions(**options)
    study = plans.plan_choice(tasks.summaries(), options)
    results, parts = [], study.child_jobs
    while parts:
        results += [
            plans.run_child_job(
                part.plan, ALGORITHMS[part.algorithm], tasks, seed=seed, trace=Trace()
            )
            for part in parts
        ]
        parts = plans.next_child_jobs(study.plan, results)
    values, report = plans.combine_results(study.plan, results, tasks)
    return values, {**report["choice"], "predictions": report["predictions"]}


def entry(name, role, inner, outer, *, final=None):
    """Return a contender with the given inner and outer errors of two tasks in each split."""

    def result(index, s, o):
        scores = {"by_task": {"rmse": {"t": [o], "u": [o]}}, "over_rows": {"rmse": [o]}}
        return {
            "index": index,
            "params": {},
            "inner": s,
            "inner_by_task": {"t": [s], "u": [s]},
            "outer": None if index is None else scores,
            "seconds": 1.0,
            "fit_s": 0.1,
            "predict_s": 0.1,
            "n_rows": 10.0,
        }

    results = [result(f, s, o) for f, (s, o) in enumerate(zip(inner, outer, strict=True))]
    return Entry(name, role, "", results, result(None, inner[0] if final is None else final, None))


def test_the_choice_of_a_split_uses_inner_scores_only() -> None:
    a = entry("a", "single_task", [1.0, 2.0, 3.0], [9.0, 9.0, 9.0], final=5.0)
    b = entry("b", "pooled", [2.0, 1.0, None], [1.0, 1.0, 1.0], final=4.0)
    found = choose([a, b], ("single_task", "pooled"), RMSE)
    assert found.chosen == (0, 1, 0)
    assert found.scores["over_rows"]["rmse"] == [9.0, 1.0, 9.0]
    assert found.final == 1
    larger = choose([a, b], ("single_task", "pooled"), replace(RMSE, larger_is_better=True))
    assert larger.chosen == (1, 0, 0)
    assert choose([a], ("pooled",), RMSE) is None


def test_a_contender_that_may_not_be_chosen_is_compared_all_the_same() -> None:
    a = entry("a", "single_task", [1.0, 1.0], [1.0, 1.0])
    a = replace(a, may_be_chosen=False)
    b = entry("b", "multi_task", [2.0, 2.0], [2.0, 2.5])
    options = AutomaticOptions(splits=FEW)
    choice = report_choice([a, b], RMSE, options, n_inner_folds=3, ratio=0.25)
    assert choice.chosen is b
    assert choice.report["estimate"]["value"] == pytest.approx(2.25)
    assert choice.report["together_or_apart"]["second"]["algorithm"] == "a"


def test_the_estimate_is_that_of_the_choice_and_the_best_row_is_named_optimistic() -> None:
    a = entry("a", "single_task", [1.0, 2.0], [4.0, 2.0])
    b = entry("b", "multi_task", [2.0, 1.0], [2.0, 3.5])
    options = AutomaticOptions(splits=FEW)
    choice = report_choice([a, b], RMSE, options, n_inner_folds=3, ratio=0.25)
    report = choice.report
    assert choice.chosen is a
    assert report["estimate"]["value"] == pytest.approx(3.75)
    assert [row["value"] for row in report["leaderboard"]] == [2.75, 3.0]
    spread = 12.706204736432095 * np.sqrt(0.125 * (0.5 + 0.25))  # t quantile, one degree
    assert report["estimate"]["high"] == pytest.approx(3.75 + spread)
    assert report["estimate"]["low"] == 0  # an RMSE is not negative
    assert [row["n_task_wins"] for row in report["leaderboard"]] == [2, 0]


def test_the_choice_is_compared_with_the_best_row() -> None:
    errors = np.array([2.0, 2.1, 1.9, 2.0])
    a = entry("a", "single_task", [1.0] * 4, [3.0, 3.2, 2.8, 3.0])
    b = entry("b", "multi_task", [2.0] * 4, errors.tolist())
    report = report_choice([a, b], RMSE, AutomaticOptions(), n_inner_folds=3, ratio=0.25).report
    pair = report["choice_or_best"]
    assert (pair["first"]["algorithm"], pair["second"]["algorithm"]) == ("a", "b")
    assert pair["gain"] == pytest.approx(-1.0)
    assert pair["verdict"] == "hurts"
    assert "the choice is significantly worse" in str(
        summarize_choice(report, unsuitable=[], dropped=[])
    )
    report = report_choice([b, a], RMSE, AutomaticOptions(), n_inner_folds=3, ratio=0.25).report
    assert report["choice_or_best"]["verdict"] == "hurts"  # by inner scores, in any order
    better = entry("b", "multi_task", [0.5] * 4, errors.tolist())
    report = report_choice([a, better], RMSE, AutomaticOptions(), n_inner_folds=3, ratio=0.25)
    assert report.report["choice_or_best"]["gain"] == 0
    sentences = summarize_choice(report.report, unsuitable=[], dropped=[])
    assert "even so" not in str(sentences)


def test_few_distinct_rows_get_more_inner_folds() -> None:
    rng = np.random.default_rng(0)

    def repeated(n_tasks, n):
        """Return tasks that share the same n rows."""
        X = rng.normal(size=(n, 2))
        return TaskSet(
            tuple(Task.from_rows(f"t{t}", X, y=rng.normal(size=n)) for t in range(n_tasks))
        )

    assert [default_inner_folds(repeated(10, n)) for n in (20, 50, 199, 200)] == [10, 5, 5, 3]
    assert default_inner_folds(linear_tasks(rng, n_tasks=10, n=20)) == 3
    for given, expected in ((None, 5), (4, 4)):
        _, report = auto(linear_tasks(rng), algorithms=["constant"], n_inner_folds=given)
        assert report["n_inner_folds"] == expected
        assert f"by {expected}-fold cross-validation" in report["sentences"][0]


@pytest.mark.slow
def test_inner_folds_of_few_shared_rows_determine_as_many_coefficients_as_the_final_fit() -> None:
    """Of 20 rows of 14 columns that all tasks share, three folds would leave 13.

    The error without a fold would be far above that of the final fit, for models of common
    coefficients in particular.
    """
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(20), rng.choice([-1.0, 1.0], size=(20, 13))])
    w = rng.normal(size=14)
    tasks = []
    for t in range(12):
        rows = np.sort(rng.permutation(20)[:10])
        y = X[rows] @ (w + 0.3 * rng.normal(size=14)) + 0.3 * rng.normal(size=10)
        tasks.append(Task.from_rows(f"t{t}", X[rows], y=y))
    inner, two = {}, Splits(scheme="holdout", n_splits=2, test_size=0.2)
    for n_folds in (3, None):
        options = {"algorithms": ["mixed-model"], "splits": two, "n_inner_folds": n_folds}
        _, report = auto(TaskSet(tuple(tasks)), **options)
        inner[n_folds] = report["leaderboard"][0]["inner"]
    assert inner[None] < 0.8 * inner[3]


def test_held_out_predictions_are_those_of_the_choice_in_each_split() -> None:
    tasks = linear_tasks(np.random.default_rng(2), n_tasks=4, d=3)
    options = {"algorithms": FAST, "n_inner_folds": 2, "seed": 7}
    _, report = auto(tasks, splits=Splits(n_folds=3, repeats=2), **options)
    predictions = report["predictions"]
    assert predictions["n_rows"] == sum(task.n_samples for task in tasks)
    splits = Splits(n_folds=3, repeats=2)
    for task in tasks:
        own = predictions["tasks"][task.name]
        assert sorted(own["rows"]) == list(range(task.n_samples))  # each once: repeats are not kept
        np.testing.assert_array_equal(own["true"], task.y[own["rows"]])
    # their errors give the score of the choice in each split of the first repeat
    _, once = auto(tasks, splits=Splits(n_folds=3, repeats=1), **options)
    held_out = splits.held_out(tasks, range(3), seed=7, min_rows=2)
    errors = []
    for split in held_out:
        for task in tasks:
            own = once["predictions"]["tasks"][task.name]
            predicted = np.empty(task.n_samples)
            predicted[own["rows"]] = own["predicted"]
            rows = split[task.name]
            errors.append(np.sqrt(np.mean((predicted[rows] - task.y[rows]) ** 2)))
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


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_held_out_predictions_of_classes_give_confusion_and_roc(n_classes) -> None:
    tasks = labelled_tasks(np.random.default_rng(3), n_classes=n_classes)
    splits = Splits(n_folds=3, repeats=1)
    options = {"algorithms": ["mtfl"], "metric": "error_rate"}
    _, report = auto(tasks, splits=splits, n_inner_folds=2, seed=7, **options)
    rows = held_out_rows({"predictions": report["predictions"]})
    # the error rate of a split is that of its predictions
    held_out = splits.held_out(tasks, range(3), seed=7, min_rows=2)
    errors = []
    for split in held_out:
        for task in tasks:
            own = report["predictions"]["tasks"][task.name]
            predicted = np.empty(task.n_samples, dtype=object)
            predicted[own["rows"]] = own["predicted"]
            errors.append(np.mean(predicted[split[task.name]] != task.y[split[task.name]]))
    assert np.mean(errors) == pytest.approx(report["estimate"]["value"])
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


def test_scores_of_different_methods_are_in_no_roc_curve() -> None:
    scores = {"rows": [0], "true": ["a"], "predicted": ["a"], "scores": [0.3]}

    def labelled(name, inner):
        one = entry(name, "single_task", inner, [0.0, 0.0])
        for result in one.results:
            result["outer"]["predictions"] = {"n_rows": 1, "tasks": {"t": scores}}
        return one

    for inner, expected in (([2.0, 2.0], [0.3, 0.3]), ([2.0, 0.5], [None, None])):
        entries = [labelled("a", [1.0, 1.0]), labelled("b", inner)]
        options = AutomaticOptions(splits=FEW)
        choice = report_choice(entries, RMSE, options, n_inner_folds=3, ratio=0.25)
        assert choice.predictions["tasks"]["t"]["scores"] == expected
        assert choice.predictions["n_rows"] == 2


@pytest.mark.slow
def test_a_choice_goes_on_with_results_of_a_version_without_numbers_of_rows() -> None:
    stored = orjson.loads((DATA / "choice_without_numbers_of_rows.json").read_bytes())
    tasks = TaskSet(
        tuple(
            Task.from_rows(name, np.array(X), y=np.array(stored["targets"][name]))
            for name, X in stored["rows"].items()
        )
    )
    plan, old = stored["plan"], stored["results"]
    plan["auto"]["options"]["curve"] = True
    assert "n_rows" not in old[0]["splits"][0]
    results, parts = list(old), plans.next_child_jobs(plan, old)
    while parts:
        results += [
            plans.run_child_job(part.plan, ALGORITHMS[part.algorithm], tasks, seed=0, trace=Trace())
            for part in parts
        ]
        parts = plans.next_child_jobs(plan, results)
    choice = plans.combine_results(plan, results, tasks)[1]["choice"]
    assert len(choice["leaderboard"]) == len({one["plan"]["contender"] for one in old}) + 1
    points = choice["curve"]["points"]
    assert [point["rows"] for point in points] == [2, 4, 5, 6]
    # the same as without an upgrade
    again = [
        plans.run_child_job(part.plan, ALGORITHMS[part.algorithm], tasks, seed=0, trace=Trace())
        for part in plans.next_child_jobs(plan, [])
    ]
    known = plans.combine_results(plan, [*again, *results[len(again) :]], tasks)[1]["choice"]
    assert known["estimate"]["chosen"] == choice["estimate"]["chosen"]
    assert known["estimate"]["value"] == pytest.approx(choice["estimate"]["value"])


def test_the_order_of_the_leaderboard_is_that_of_the_values_that_are_compared() -> None:
    def of_tasks(name, role, inner, by_task):
        one = entry(name, role, [inner] * 2, [0.0, 0.0])
        for f, result in enumerate(one.results):
            own = {task: [values[f]] for task, values in by_task.items()}
            result["outer"]["by_task"]["rmse"] = own
        return one

    # the second split holds out no row of task u; means over splits of a task come first for b
    a = of_tasks("a", "single_task", 1.0, {"t": [2.0, 2.0], "u": [3.0, None]})
    b = of_tasks("b", "multi_task", 2.0, {"t": [3.0, 1.4], "u": [2.6, None]})
    options = AutomaticOptions(splits=FEW)
    report = report_choice([a, b], RMSE, options, n_inner_folds=3, ratio=0.25).report
    pair = report["choice_or_best"]
    assert [row["value"] for row in report["leaderboard"]] == pytest.approx([2.1, 2.25])
    assert (pair["first_value"], pair["second_value"]) == pytest.approx((2.25, 2.1))
    assert report["estimate"]["value"] == pytest.approx(2.25)


def test_roles_agree_with_those_of_the_baselines() -> None:
    roles = {
        name: {one.role for one in contenders_of(algorithm)}
        for name, algorithm in ALGORITHMS.items()
        if not any(field.is_required() for field in algorithm.Params.model_fields.values())
    }
    for algorithm in ALGORITHMS.values():
        for baseline in algorithm.baselines:
            if baseline.algorithm in roles and "rows" not in baseline.values:
                assert baseline.role in roles[baseline.algorithm], baseline


def test_candidates_are_the_grids_unless_an_algorithm_selects_faster_itself() -> None:
    fmtl = contenders_of(ALGORITHMS["fmtl"])
    grid = ALGORITHMS["fmtl"].Params().grid
    (one,) = fmtl
    assert len(one.candidates) == 2 * len(grid)  # two kernels
    ridge = contenders_of(ALGORITHMS["ridge"])
    assert [(c.role, c.variant) for c in ridge] == [
        ("single_task", ""),
        ("pooled", ""),
        ("single_task", "parameters per task"),
    ]
    assert all(c.candidates[0]["selection"] == "loo" for c in ridge)


def test_contenders_that_do_not_suit_are_left_out_with_the_reason() -> None:
    tasks = linear_tasks(np.random.default_rng(0))
    found, left_out = find_contenders(ALGORITHMS, tasks.summaries(), RMSE, FEW)
    assert {"ridge", "mtfl", "fmtl", "constant"} <= {one.algorithm for one in found}
    reasons = {one["algorithm"]: one["reason"] for one in left_out}
    assert "rmse" in reasons["pca"]
    assert not {one.algorithm for one in found} & {"pca", "mtda"}
    assert {one.algorithm for one in found} | set(reasons) == set(ALGORITHMS)


def _first_round(seconds):
    """Return the results of a first round in which contenders took these times."""
    return [
        {
            "plan": {"of": "auto", "round": 0, "contender": which, "indices": [0]},
            "splits": None if taken is None else [{"index": 0, "seconds": taken}],
            "failed": "it failed" if taken is None else None,
        }
        for which, taken in enumerate(seconds)
    ]


def test_the_slowest_contenders_are_left_out_for_the_budget_but_never_all() -> None:
    tasks = linear_tasks(np.random.default_rng(0))
    names = ["constant", "ridge"]  # five contenders; each has five more parts
    for budget_s, tried in ((1e6, [2, 0, 1, 4]), (20.0, [2, 0]), (1e-9, [2])):
        options = AutomaticOptions(splits=FEW, algorithms=names, budget_s=budget_s)
        study = plans.plan_choice(tasks.summaries(), options)
        assert [part.plan["contender"] for part in study.child_jobs] == [0, 1, 2, 3, 4]
        later = plans.next_child_jobs(study.plan, _first_round([1.0, 2.0, 0.1, None, 3.0]))
        assert list(dict.fromkeys(part.plan["contender"] for part in later)) == tried
        assert {part.plan["indices"][0] for part in later} == {1, 2, 3, 4, None}


def _timed(seconds, *, budget_s) -> list[dict]:
    """Return results of the first round; None where the share of the budget was too short."""
    return [
        {
            "plan": {"of": "auto", "round": 0, "contender": which, "indices": [0]},
            "splits": None if s is None else [{"seconds": s}],
            "failed": "one split took longer" if s is None else None,
            "spent_s": budget_s / len(seconds) if s is None else None,
        }
        for which, s in enumerate(seconds)
    ]


def test_contenders_that_took_too_long_are_tried_again_with_what_the_others_leave() -> None:
    tasks = linear_tasks(np.random.default_rng(0))
    # five contenders of 100 s each; a contender needs six times its first split
    options = AutomaticOptions(splits=FEW, algorithms=["constant", "ridge"], budget_s=500.0)
    study = plans.plan_choice(tasks.summaries(), options)
    one_slow = _timed([0.01, 0.01, 0.01, 0.01, None], budget_s=500.0)
    assert not [p for p in plans.next_child_jobs(study.plan, one_slow) if p.plan["is_retry"]]
    # more contenders, so that the share of each is small
    many = {**study.plan, "auto": {**study.plan["auto"]}}
    many["auto"]["contenders"] = study.plan["auto"]["contenders"] * 8
    slow = [None if which in (3, 30) else 0.1 for which in range(40)]
    results = _timed(slow, budget_s=500.0)
    again = plans.next_child_jobs(many, results)
    assert [part.plan["contender"] for part in again] == [3, 30]
    (limit_s,) = {part.plan["limit_s"] for part in again}
    # 500 s without 25 s that were lost and 38 * 6 * 0.1 s, for twelve splits
    assert limit_s == pytest.approx((500 - 25 - 22.8) / 12)
    assert limit_s > 1.5 * 500 / 40
    second = [
        {"plan": dict(part.plan), "splits": [{"seconds": 30.0}], "failed": None} for part in again
    ]
    later = plans.next_child_jobs(many, [*results, *second])
    assert {3, 30} <= {part.plan["contender"] for part in later}
    assert not any(part.plan["is_retry"] for part in later)
    assert not plans.next_child_jobs(
        many, [*results, *second, {"plan": dict(later[0].plan), "splits": None, "failed": "x"}]
    )


@pytest.mark.slow
def test_a_contender_that_succeeds_the_second_time_is_compared() -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=2)
    names = ["constant", "ridge", "mean-regularised", "nearest-neighbours"]
    options = AutomaticOptions(splits=Splits(n_folds=2, repeats=1), algorithms=names, budget_s=1e6)
    study = plans.plan_choice(tasks.summaries(), options)

    def run(parts):
        return [
            plans.run_child_job(part.plan, ALGORITHMS[part.algorithm], tasks, seed=0, trace=Trace())
            for part in parts
        ]

    results = run(study.child_jobs)
    share_s = 1e6 / len(results)
    results[1] |= {"splits": None, "failed": "too long", "spent_s": share_s}
    again = plans.next_child_jobs(study.plan, results)
    assert [part.plan["contender"] for part in again] == [1]
    results += run(again)
    results += run(plans.next_child_jobs(study.plan, results))
    report = plans.combine_results(study.plan, results, tasks)[1]["choice"]
    assert len(report["leaderboard"]) == len(study.child_jobs)
    assert "too long" not in str(report["left_out"])


def test_a_split_that_takes_longer_than_its_share_ends() -> None:
    tasks = linear_tasks(np.random.default_rng(0))
    expected = r"failed: constant, ridge: one split took longer than its share .*; raise budget_s$"
    with pytest.raises(InvalidData, match=expected):
        auto(tasks, splits=FEW, algorithms=["constant", "ridge"], budget_s=1e-9)


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
    assert re.search(r"fmtl, kernel-tasks and \d+ more: no split can hold out a row", text)
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
    _, report = auto(tasks, metric="auc", algorithms=names, splits=splits, n_inner_folds=2)
    assert {row["algorithm"] for row in report["leaderboard"]} == {"constant", names[1]}
    assert report["without_value"] == [without.name]
    (missing,) = [s for s in report["sentences"] if s.startswith("AUC has no value for")]
    assert f"1 of 3 tasks ('{without.name}')" in missing
    (unsuitable,) = [s for s in report["sentences"] if s.startswith("Not suited")]
    reasons = {entry["algorithm"]: entry["reason"] for entry in report["left_out"]}
    assert set(reasons) == {"okl", "pca"}
    for name, reason in reasons.items():
        assert f"{name}: {reason.replace(name, 'the method')}" in unsuitable


def test_methods_left_out_are_named_with_their_variants() -> None:
    tasks = linear_tasks(np.random.default_rng(0))
    options = AutomaticOptions(splits=FEW, algorithms=["ridge"], budget_s=20.0)
    study = plans.plan_choice(tasks.summaries(), options)
    _, omitted = admit(study.plan["auto"], _first_round([0.1, 10.0, 20.0]))
    assert [one["variant"] for one in omitted] == ["", "parameters per task"]
    sentences = _describe_left_out((), omitted)
    assert sentences[1].startswith(
        "Not compared: ridge (each task alone, parameters per task): about 100 s more would be "
    )


def test_a_contender_that_fails_is_left_out_with_the_reason(monkeypatch) -> None:
    def fail(*_, **__):
        raise Diverged("the objective became infinite")

    monkeypatch.setattr(Ridge, "fit", fail)
    tasks = linear_tasks(np.random.default_rng(0))
    _, report = auto(tasks, splits=FEW, algorithms=["ridge", "constant"])
    assert {row["algorithm"] for row in report["leaderboard"]} == {"constant"}
    assert "infinite" in report["left_out"][0]["reason"]
    with pytest.raises(InvalidData, match=r"every method failed.*infinite"):
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


def test_all_contenders_have_the_same_outer_rows() -> None:
    tasks = linear_tasks(np.random.default_rng(1))
    study = plans.plan_choice(tasks.summaries(), AutomaticOptions(splits=FEW, algorithms=FAST))
    assert (
        len({(part.plan["min_rows"], str(part.plan["splits"])) for part in study.child_jobs}) == 1
    )


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
    """The mean of the estimates over data sets is that of the chosen models on new rows.

    The root of a mean over few rows is smaller than over many, so that fresh rows are scored in
    parts of as many rows of each task as a split holds out.
    """
    differences = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        whole = linear_tasks(rng, n_tasks=4, n=20 + 1000, d=4, shared=0.5)
        tasks = TaskSet(tuple(task.take(np.arange(20)) for task in whole))
        options = {"algorithms": ["ridge"], "splits": Splits(n_folds=10, repeats=1)}
        values, report = auto(tasks, seed=seed, n_inner_folds=2, **options)
        algorithm = ALGORITHMS[report["chosen"]["algorithm"]]
        model = algorithm.fit(tasks, algorithm.parse(values), trace=Trace(), rng=rng)
        fresh = []
        for task in whole:
            errors = task.y[20:] - model.predict(task.X[20:], task=task.name)
            fresh.append(np.sqrt((errors.reshape(-1, 2) ** 2).mean(axis=1)).mean())
        differences.append(report["estimate"]["value"] - float(np.mean(fresh)))
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert abs(np.mean(differences)) < 3 * error


def test_tasks_are_divided_only_if_they_differ_by_more_than_chance() -> None:
    # two tasks clearly gain, two clearly lose: each gets its own
    together = {"a": [1.0, 1.1], "b": [1.0, 0.9], "c": [3.0, 3.1], "d": [3.0, 2.9]}
    apart = {name: [2.0, 2.0] for name in together}
    found = tasks_together(together, apart, RMSE)
    assert found == {"a": True, "b": True, "c": False, "d": False}
    larger = tasks_together(together, apart, replace(RMSE, larger_is_better=True))
    assert larger == {name: not shared for name, shared in found.items()}
    # the spread of the means, 0.02, is below the noise of the folds, 1.4: all get the common choice
    noisy = {"a": [0.0, 2.4], "b": [0.0, 2.4], "c": [0.3, 2.9], "d": [0.0, 2.0]}
    assert set(tasks_together(noisy, apart, RMSE).values()) == {True}
    assert tasks_together({"a": [None]}, {"a": [1.0]}, RMSE) == {"a": True}


def test_a_choice_per_task_is_scored_like_the_common_one() -> None:
    rng = np.random.default_rng(0)
    related = linear_tasks(rng, n_tasks=6, n=10, d=12, shared=1.0, noise=0.5)
    own = linear_tasks(rng, n_tasks=2, n=80, d=12, shared=0.0, noise=0.5)
    other = [Task.from_rows(f"own{i}", task.X, y=-30 * task.y) for i, task in enumerate(own.tasks)]
    tasks = TaskSet((*related.tasks, *other))
    _, report = auto(tasks, algorithms=["ridge"], splits=FEW)
    found = report["per_task"]
    assert {"own0", "own1"} <= set(found["apart"])
    assert found["value"] <= report["together_or_apart"]["first_value"]
    gain = report["estimate"]["value"] - found["value"]
    assert found["gain"] == pytest.approx(gain, rel=1e-9, abs=1e-12)
    _, report = auto(tasks, algorithms=["ridge"], splits=FEW, average="rows")
    assert report["per_task"] is None


def _linear_and_not(rng) -> TaskSet:
    """Return related linear tasks of few rows, and unrelated tasks of many that are not linear."""
    w = rng.normal(size=2)
    w *= 3 / np.linalg.norm(w)
    tasks = []
    for t in range(4):
        X = rng.normal(size=(8, 2))
        tasks.append(Task.from_rows(f"related{t}", X, y=X @ w + 0.5 * rng.normal(size=8)))
    for t in range(4):
        X = rng.normal(size=(100, 2))
        y = 3 * rng.choice([-1, 1]) * np.sign(X[:, 0] * X[:, 1]) + 0.5 * rng.normal(size=100)
        tasks.append(Task.from_rows(f"own{t}", X, y=y))
    return TaskSet(tuple(tasks))


@pytest.mark.slow
def test_related_tasks_share_and_the_others_are_alone_in_most_data_sets() -> None:
    found = []
    for seed in range(3):
        tasks = _linear_and_not(np.random.default_rng(seed))
        values, report = auto(
            tasks,
            seed=seed,
            algorithms=["mean-regularised", "nearest-neighbours"],
            splits=FEW,
            n_inner_folds=3,
            per_task=True,
        )
        assert report["alone"] is not None
        assert report["chosen"]["algorithm"] == "mean-regularised"
        assert ALGORITHMS["mean-regularised"].parse(values)
        found.append(report["alone"]["tasks"] == ["own0", "own1", "own2", "own3"])
        (row,) = [row for row in report["leaderboard"] if row["role"] == "per_task"]
        assert row["value"] == pytest.approx(report["per_task"]["value"])
        assert "The trained model has two fits" in str(report["sentences"])
        assert report["predictions"]["n_rows"] == sum(task.n_samples for task in tasks)
    assert found.count(True) >= 2


@pytest.mark.slow
def test_noise_is_not_divided() -> None:
    for seed in range(3):
        tasks = linear_tasks(np.random.default_rng(500 + seed), signal=0.0)
        options = {**PLAIN, "algorithms": ["ridge", "constant"], "per_task": True}
        _, report = auto(tasks, seed=seed, **options)
        assert report["alone"] is None
        assert report["per_task"]["verdict"] != "helps"
