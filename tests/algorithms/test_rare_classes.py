"""Rare classes: the metric that decides by default, and what is said of it."""

import numpy as np
import pytest

from algorithms.automatic import fit_automatic
from algorithms.ensemble.held_out import RowOptions
from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.comparison.comparison import CompareOptions
from algorithms.evaluation.scores.metrics import MetricChoice, deciding_metric, metrics_for
from algorithms.evaluation.scores.rare_classes import DEFAULT_RARE_SHARE, rarest_class
from algorithms.evaluation.scores.recall import report_classes
from algorithms.evaluation.selection.search import SearchOptions
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from service.jobs.studies import plans


def clinics(*, n_tasks=4, n=120, seed=1) -> TaskSet:
    """Return tasks in which 6 % of the rows are ill."""
    rng = np.random.default_rng(seed)
    tasks = []
    for i in range(n_tasks):
        X = rng.normal(size=(n, 3))
        p = 1 / (1 + np.exp(3.4 - X @ [1.0, -0.6, 0.4]))
        y = np.where(rng.random(n) < p, "ill", "ok")
        tasks.append(Task.from_rows(f"clinic {i}", X, y=y))
    return TaskSet(tuple(tasks))


def counted(*counts) -> list[TaskSummary]:
    return [
        TaskSummary(f"t{i}", sum(of.values()), 2, target="classes", class_counts=of)
        for i, of in enumerate(counts)
    ]


def automatic(tasks, **options):
    study = plans.plan_choice(
        tasks.summaries(), AutomaticOptions.model_validate(options, strict=False)
    )
    return fit_automatic(study.plan["auto"], tasks, rows=RowOptions(), seed=0, trace=Trace())[1]


@pytest.fixture(scope="module")
def choices():
    """A choice by the error rate, and by the default metric."""
    options = {"algorithms": ["constant", "ridge", "lda-rt"], "splits": {"repeats": 1}}
    return [automatic(clinics(), rare_share=share, **options) for share in (0, DEFAULT_RARE_SHARE)]


@pytest.mark.slow  # compares all methods
def test_a_choice_with_a_rare_class_is_not_the_constant(choices) -> None:
    before, after = (report["choice"] for report in choices)
    assert (before["metric"], after["metric"]) == ("error_rate", "auc")
    weights = {}
    for row in after["leaderboard"]:
        weights[row["algorithm"]] = weights.get(row["algorithm"], 0.0) + row["weight"]
    assert weights["ridge"] > weights["constant"]
    assert after["estimate"]["value"] > 0.7


def test_the_report_says_why_the_metric_decides(choices) -> None:
    before, after = (report["choice"] for report in choices)
    assert before["metric_reason"] is None
    assert "'ill'" in after["metric_reason"]
    assert any(after["metric_reason"] in sentence for sentence in after["sentences"])


def test_the_report_has_recall_and_names_a_class_that_is_never_answered(choices) -> None:
    before, _ = choices
    found, predictions = before["classes"], before["predictions"]["tasks"]
    true = np.concatenate([task["true"] for task in predictions.values()])
    assert found["n_rows"] == len(true) == 480
    assert list(found["by_class"]) == ["ill", "ok"]  # the rarest first
    n_ill = int((true == "ill").sum())
    assert found["by_class"]["ill"] == {"n_rows": n_ill, "n_answered": 0, "recall": 0.0}
    assert found["by_class"]["ok"] == {"n_rows": 480 - n_ill, "n_answered": 480, "recall": 1.0}
    (sentence,) = found["sentences"]
    assert "'ill'" in sentence
    assert "threshold='prevalence'" in sentence


def test_recall_counts_labels_of_all_tasks() -> None:
    def part(true, predicted):
        return {"rows": [], "true": true, "predicted": predicted, "scores": []}

    tasks = TaskSet(
        tuple(Task.from_rows(name, np.ones((2, 1)), y=np.array([1, 2])) for name in "ab")
    )
    predictions = {
        "n_rows": 5,
        "tasks": {"a": part([1, 2, 2], [1, 1, 2]), "b": part([2, 1], [2, 2])},
    }
    found = report_classes(predictions, tasks)
    assert found["by_class"]["1"] == {"n_rows": 2, "n_answered": 2, "recall": 0.5}
    assert found["by_class"]["2"] == {"n_rows": 3, "n_answered": 3, "recall": pytest.approx(2 / 3)}
    assert found["sentences"] == []
    assert report_classes(None, tasks) is None


def test_a_method_without_scores_is_ranked_by_the_probabilities_of_the_race(choices) -> None:
    assert "lda-rt" in {row["algorithm"] for row in choices[1]["choice"]["leaderboard"]}


@pytest.mark.parametrize(
    ("counts", "share", "is_rare"),
    [
        ([{"ill": 19, "ok": 81}], 0.2, True),
        ([{"ill": 20, "ok": 80}], 0.2, False),
        ([{"ill": 19, "ok": 81}], 0.1, False),
        ([dict.fromkeys("abcdefghij", 10)], 0.2, False),  # ten classes of equal size
        ([{**dict.fromkeys("abcdefghi", 10), "j": 3}], 0.2, True),
        ([{"a": 10, "b": 10}, {"c": 10, "d": 10}], 0.2, False),  # other classes in other tasks
        ([{"ill": 3, "ok": 97}, {"ok": 100}], 0.2, True),
        ([{"ill": 2, "ok": 98}], 0.2, False),  # too few rows of the class to rank them
        ([{"ill": 50, "ok": 50}, {"ok": 900}], 0.2, False),  # it is not rare where it occurs
    ],
)
def test_the_default_metric_is_auc_if_the_smallest_class_is_rare(counts, share, is_rare) -> None:
    tasks = counted(*counts)
    metrics = metrics_for([ALGORITHMS["ridge"]], tasks)
    metric, reason = deciding_metric(metrics, MetricChoice(rare_share=share), tasks)
    assert (metric.name, reason is not None) == ("auc" if is_rare else "error_rate", is_rare)
    assert deciding_metric(metrics, MetricChoice(metric="error_rate"), tasks)[1] is None


def test_a_method_that_cannot_rank_rows_keeps_the_error_rate() -> None:
    tasks = counted({"ill": 5, "ok": 95})
    metrics = metrics_for([ALGORITHMS["lda-rt"]], tasks)
    assert deciding_metric(metrics, MetricChoice(), tasks)[0].name == "error_rate"


def test_comparisons_and_searches_have_the_same_default() -> None:
    tasks = clinics().summaries()
    options = plans.StudyOptions(
        search=SearchOptions(space={"gamma": [0.1, 1.0]}), compare=CompareOptions()
    )
    study = plans.plan_job(ALGORITHMS["mtfl"], {}, tasks, options, seed=0)
    assert {study.plan[of]["metric"] for of in ("search", "comparison")} == {"auc"}
    inner = [c.plan["search"] for c in study.child_jobs if c.plan.get("search")]
    assert {search["metric"] for search in inner} == {"auc"}


def test_shares_are_of_the_tasks_that_have_the_class() -> None:
    rarest = rarest_class(counted({"ill": 10, "ok": 90}, {"ill": 30, "ok": 70}, {"ok": 100}))
    assert (rarest.label, rarest.share, rarest.relative) == ("ill", 0.2, pytest.approx(0.4))
