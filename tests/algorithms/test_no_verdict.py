"""Reports without a verdict: one task, only constants on a side, no scores, one split."""

import re

import numpy as np
import pytest

from algorithms.evaluation.choice.automatic_verdict import summarize_choice, update_choice
from algorithms.evaluation.comparison.comparison import CompareOptions
from algorithms.evaluation.comparison.no_verdict import (
    FEW_SCORES,
    NO_METHOD,
    NO_VERDICT,
    ONE_TASK,
    ONLY_CONSTANTS,
)
from algorithms.evaluation.scores.gains import gain_of
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.tasks import Task, TaskSet
from algorithms.splits.splits import Splits
from service.models.report_schemas import Report
from service.ui.views import reports
from service.ui.views.answer import Subject, headline
from service.ui.views.words import GroupWords
from sibling.plots import gains, learning_curve
from sibling.plots.source import Source
from tests.algorithms.test_automatic import FAST, FEW, auto, entry, report_of
from tests.algorithms.test_comparison import linear_tasks, study, table

RMSE = METRICS["rmse"]
GROUPS = GroupWords.of(None)
OPTIONS = CompareOptions(splits=Splits(n_folds=3, repeats=1))
TESTED = ("gain", "low", "high", "p_value", "margin")
#: What a sentence with a verdict on learning together has.
VERDICT = re.compile(
    "together.*(help|hurt|no relevant)|unclear|gain from|lose by|By task", re.IGNORECASE
)


def choice_among(*names, n_tasks=2, n_splits=4, **options):
    """Return the report of a choice among contenders ``algorithm:role``."""
    rng = np.random.default_rng(0)
    entries = []
    for place, name in enumerate(names):
        errors = (1.0 + place + 0.01 * rng.normal(size=n_splits)).tolist()
        entries.append(entry(*name.split(":"), {f"t{i}": errors for i in range(n_tasks)}))
    return summarize_choice(report_of(entries, **options), unsuitable=[], dropped=[])


def assert_no_verdict(found, reason):
    assert (found["verdict"], found["reason"]) == (NO_VERDICT, reason)
    assert all(found[name] is None for name in TESTED)


def assert_no_verdict_in_words(report, reason):
    """Check that sentences, page and plots have the reason, and no verdict on learning together."""
    kind = "comparison" if "sharing" in report else "choice"
    assert any(reason in sentence for sentence in report["sentences"])
    assert [one for one in report["sentences"] if VERDICT.search(one) and reason not in one] == []
    subject = Subject(len(report["tasks"]), GROUPS, "")
    said = "nothing can be learned together" if reason == ONE_TASK else GROUPS.said(reason)
    assert said in headline(report, subject)
    assert reports.gains(report, GROUPS) is None
    source = Source(report={kind: report})
    assert gains.describe(source) is None
    assert learning_curve.describe(source) is None


def test_a_comparison_of_one_task_has_no_verdict() -> None:
    found = study("mtfl", linear_tasks(n_tasks=1, n_samples=30), compare=OPTIONS)
    assert found["verdict"] == NO_VERDICT
    for part in (found["sharing"], found["candidate"], *found["tasks"].values()):
        assert_no_verdict(part, ONE_TASK)
    assert_no_verdict_in_words(found, ONE_TASK)
    # methods are still compared
    assert found["best"]["algorithm"]
    assert all(entry["gain"] is not None for entry in found["overall"])


def test_an_automatic_choice_of_one_task_has_no_verdict() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    tasks = TaskSet((Task.from_rows("whole file", X, y=X[:, 0] + rng.normal(size=30)),))
    _, found = auto(tasks, algorithms=FAST, splits=FEW, curve=True)
    pairs = (found[name] for name in ("together_or_apart", "multi_task_or_pooled"))
    for part in (*pairs, *found["tasks"].values()):
        assert_no_verdict(part, ONE_TASK)
    assert (found["curve"]["reason"], found["curve"]["points"]) == (ONE_TASK, [])
    assert_no_verdict_in_words(found, ONE_TASK)
    assert found["choice_or_best"]["verdict"] != NO_VERDICT  # this one is not on sharing


@pytest.mark.parametrize("side", ["single_task", "pooled"])
def test_a_side_of_constants_has_no_verdict(side) -> None:
    others = {"single_task", "pooled"} - {side}
    found = choice_among(f"constant:{side}", *(f"ridge:{role}" for role in others))
    assert_no_verdict(found["together_or_apart"], ONLY_CONSTANTS)
    assert_no_verdict(found["multi_task_or_pooled"], NO_METHOD)
    for task in found["tasks"].values():
        assert_no_verdict(task, ONLY_CONSTANTS)
    assert_no_verdict_in_words(found, ONLY_CONSTANTS)


def test_a_choice_among_constants_has_no_verdict_of_any_kind() -> None:
    found = choice_among("constant:single_task", "constant:pooled", "constant:multi_task")
    for name in ("together_or_apart", "multi_task_or_pooled", "choice_or_best"):
        assert_no_verdict(found[name], ONLY_CONSTANTS)
    assert "p = " not in str(found["sentences"])


def test_a_constant_beside_other_methods_does_not_prevent_a_verdict() -> None:
    names = ("ridge:single_task", "constant:single_task", "constant:pooled", "ridge:pooled")
    found = choice_among(*names)
    assert found["together_or_apart"]["verdict"] == "unclear"
    assert found["together_or_apart"]["reason"] is None


def test_constants_alone_have_no_learning_curve() -> None:
    tasks = linear_tasks(n_tasks=3, n_samples=12, d=2)
    _, found = auto(tasks, algorithms=["constant"], splits=FEW, curve=True)
    assert found["curve"]["reason"] == ONLY_CONSTANTS
    assert_no_verdict_in_words(found, ONLY_CONSTANTS)


def test_a_budget_that_leaves_one_method_gives_no_verdict() -> None:
    tasks = linear_tasks(n_tasks=3, n_samples=12, d=2)
    _, found = auto(tasks, algorithms=FAST, splits=FEW, budget_s=1e-9)
    assert {row["algorithm"] for row in found["leaderboard"]} == {"constant"}
    assert {one["algorithm"] for one in found["left_out"]} >= {"ridge", "mean-regularised"}
    assert_no_verdict(found["together_or_apart"], NO_METHOD)
    assert_no_verdict_in_words(found, NO_METHOD)


def test_a_comparison_with_constants_alone_has_no_verdict() -> None:
    found = table(candidate=0.5, single_task=1.0, names={"single_task": "constant"})
    assert found["verdict"] == NO_VERDICT
    assert_no_verdict(found["sharing"], ONLY_CONSTANTS)
    assert_no_verdict_in_words(found, ONLY_CONSTANTS)


def test_one_split_gives_no_verdict() -> None:
    found = table(n_splits=1, candidate=0.5, single_task=1.0)
    assert found["verdict"] == NO_VERDICT
    for part in (found["sharing"], *found["tasks"].values()):
        assert_no_verdict(part, FEW_SCORES)
    assert_no_verdict_in_words(found, FEW_SCORES)
    choice = choice_among("ridge:single_task", "ridge:pooled", n_splits=1)
    assert_no_verdict(choice["together_or_apart"], FEW_SCORES)
    assert_no_verdict(choice["choice_or_best"], FEW_SCORES)


@pytest.mark.parametrize("missing", [None, np.nan, np.inf])
def test_scores_that_are_no_numbers_give_no_verdict(missing) -> None:
    assert gain_of([1.0, missing, missing], [2.0, 2.1, 2.2], RMSE, ratio=0.25) is None
    known = gain_of([1.0, 1.1, missing], [2.0, 2.1, 2.2], RMSE, ratio=0.25)
    assert (known.mean, known.df) == (pytest.approx(1.0), 2)


def test_a_method_without_scores_does_not_hide_the_verdict_of_the_others() -> None:
    without = table(candidate=0.8, single_task1=1.0, single_task2=np.nan, trivial=2.0)
    assert without["verdict"] == "helps"
    none = table(candidate=0.8, single_task=np.nan, trivial=2.0)
    assert none["verdict"] == NO_VERDICT
    assert_no_verdict(none["sharing"], FEW_SCORES)


def test_a_task_without_scores_has_no_verdict_and_is_not_counted() -> None:
    tasks = linear_tasks(n_tasks=3, n_samples=20)
    flat = Task.from_rows("flat", np.random.default_rng(0).normal(size=(20, 20)), y=np.ones(20))
    options = OPTIONS.model_copy(update={"metric": "r2"})
    found = study("mtfl", TaskSet((*tasks.tasks, flat)), compare=options)
    assert_no_verdict(found["tasks"]["flat"], FEW_SCORES)
    assert "Benjamini-Hochberg over 3 tasks" in found["sentences"][-1]
    assert "no verdict 1" in found["sentences"][-1]
    rows = reports.gains(found, GROUPS)
    assert rows is not None


def test_reports_of_earlier_versions_follow_the_rule() -> None:
    def former(part):
        """Return a report without the reasons, which it did not have."""
        if isinstance(part, dict):
            return {key: former(value) for key, value in part.items() if key != "reason"}
        return [former(value) for value in part] if isinstance(part, list) else part

    comparison = former(table(candidate=0.5, single_task=1.0, trivial=2.0))
    one_task = {**comparison, "tasks": {"t0": comparison["tasks"]["t0"]}}
    assert one_task["verdict"] == "helps"
    stored = {"comparison": {**one_task, "left_out": []}}
    shown = Report.model_validate(stored).model_dump()["comparison"]
    assert shown["verdict"] == NO_VERDICT
    assert_no_verdict(shown["sharing"], ONE_TASK)
    assert_no_verdict_in_words(shown, ONE_TASK)
    assert Report.model_validate({"comparison": shown}).model_dump()["comparison"] == shown
    # a verdict stays, with its sentences
    kept = Report.model_validate({"comparison": {**comparison, "left_out": []}}).model_dump()
    assert kept["comparison"]["verdict"] == "helps"
    assert kept["comparison"]["sentences"] == comparison["sentences"]


def test_an_automatic_choice_of_an_earlier_version_follows_the_rule() -> None:
    report = choice_among("ridge:single_task", "ridge:pooled")
    report = {**report, "curve": None, "left_out": [], "alignment": None, "task_confidence": None}
    former = {**report["together_or_apart"], "verdict": "hurts", "certainty": None}
    report["together_or_apart"] = former
    assert update_choice(report) is report
    shown = update_choice({**report, "tasks": {"t0": report["tasks"]["t0"]}})
    assert_no_verdict(shown["together_or_apart"], ONE_TASK)
    assert_no_verdict_in_words(shown, ONE_TASK)
    # a side without a method was null
    shown = update_choice(
        {**report, "together_or_apart": None, "leaderboard": report["leaderboard"][:1]}
    )
    assert_no_verdict(shown["together_or_apart"], NO_METHOD)
