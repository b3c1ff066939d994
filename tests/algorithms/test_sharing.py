"""The verdict on learning together: its words, the size of the gain, and gains of tasks."""

import numpy as np
import pytest

from algorithms.evaluation.choice.alignment import Alignment
from algorithms.evaluation.choice.automatic_verdict import summarize_choice
from algorithms.evaluation.choice.sharing import SharingVerdict, sharing_verdict
from algorithms.evaluation.scores.gains import Gain
from algorithms.interface.tasks import Task, TaskSet
from algorithms.splits.splits import Splits
from service.models.choice_schemas import Choice
from service.ui.views import reports
from service.ui.views.answer import Subject, headline
from service.ui.views.words import GroupWords
from tests.algorithms.test_automatic import FAST, FEW, auto, entry, report_of

UNCLEAR = SharingVerdict("unclear")
GROUPS = GroupWords.of(None)


def headline_of(choice):
    """Return the first line of the page of a model with a choice."""
    return headline(choice, Subject(len(choice["tasks"]), GROUPS, ""))


@pytest.mark.parametrize(
    ("gain", "error", "alignment_p", "expected"),
    [
        (0.1, 0.2, 0.009, SharingVerdict("helps", "very likely")),
        (0.1, 0.2, 0.02, SharingVerdict("helps", "probably")),
        (0.1, 0.05, 0.04, SharingVerdict("helps", "probably")),  # p of the gain is .03
        (0.1, 0.06, 0.04, UNCLEAR),  # p of the gain is .056
        (0.1, 0.05, 0.06, UNCLEAR),
        (0.1, 0.01, 0.2, UNCLEAR),  # the gain alone does not decide
        (0.009, 0.2, 0.001, UNCLEAR),  # not relevant
        (-0.2, 0.01, 0.001, UNCLEAR),  # nor does it hurt
        (-0.2, 0.01, 0.9, UNCLEAR),
        (0.002, 0.003, 0.001, SharingVerdict("equal")),
        (0.1, 0.01, None, SharingVerdict("helps", "probably")),
        (0.1, 0.2, None, UNCLEAR),
        (-0.2, 0.01, None, UNCLEAR),
    ],
)
def test_words_need_both_the_level_and_the_size(gain, error, alignment_p, expected) -> None:
    alignment = None if alignment_p is None else Alignment(alignment_p, "signs", 8, 80)
    found = sharing_verdict(Gain(gain, error, 20, 1.0), alignment, min_effect=0.01)
    assert found == expected


@pytest.mark.parametrize(
    ("alignment_p", "expected"),
    [(0.009, SharingVerdict("helps", "probably")), (0.02, UNCLEAR)],
)
def test_few_tasks_are_at_most_probable(alignment_p, expected) -> None:
    alignment = Alignment(alignment_p, "rotations", 4, 40)
    assert sharing_verdict(Gain(0.1, 0.2, 20, 1.0), alignment, min_effect=0.01) == expected


def test_an_unknown_gain_has_no_verdict() -> None:
    assert sharing_verdict(None, None, min_effect=0.01) == SharingVerdict("none")


def choice_of(together, apart, *, p_value=0.001, n_rows=10, **more):
    """Return the report of a choice between errors of tasks, learned together and alone."""
    report = report_of(
        [entry("ridge", "multi_task", together), entry("ridge", "single_task", apart)],
        alignment=Alignment(p_value, "signs", len(together), 10 * len(together)),
        n_rows=dict.fromkeys(together, n_rows),
    )
    return summarize_choice({**report, **more}, unsuitable=[], dropped=[])


def errors_of(ratios, *, n_splits=4, noise=0.02):
    """Return errors of tasks around 1 alone, and around 1/ratio together."""
    rng = np.random.default_rng(0)
    apart = {f"t{t}": 1 + noise * rng.normal(size=n_splits) for t in range(len(ratios))}
    names = zip(apart, ratios, strict=True)
    together = {name: apart[name] / r + noise * rng.normal(size=n_splits) for name, r in names}
    return (
        {task: values.tolist() for task, values in together.items()},
        {task: values.tolist() for task, values in apart.items()},
    )


def test_a_report_has_the_level_the_gain_and_the_words() -> None:
    found = choice_of(*errors_of([1.2, 1.3, 1.1, 1.25, 1.15]))
    pair = found["together_or_apart"]
    assert (pair["verdict"], pair["certainty"]) == ("helps", "very likely")
    assert found["alignment"]["p_value"] == 0.001
    assert 0 < pair["low"] < pair["gain"] < pair["high"]
    words = " ".join(found["sentences"])
    assert "together or pooled very likely helps" in words
    assert "p = 0.001" in words
    assert headline_of(found).startswith("Learning the 5 groups together very likely lowers")


def test_a_gain_whose_interval_has_0_in_it_is_said_to_be_of_another_test() -> None:
    found = choice_of(*errors_of([1.6, 0.8, 1.5, 0.9, 1.3]))
    pair = found["together_or_apart"]
    assert (pair["verdict"], pair["certainty"]) == ("helps", "very likely")
    assert pair["low"] < 0 < pair["high"]
    (sentence,) = (text for text in found["sentences"] if "very likely" in text)
    assert ", by the test of their functions; the interval of the gain has 0 in it (" in sentence
    assert headline_of(found).endswith(" very likely helps; by how much is not clear")


def test_all_methods_are_tested_against_one_model_for_all() -> None:
    together, apart = errors_of([1.2, 1.3, 1.1, 1.25, 1.15])
    entries = [
        entry("ridge", role, errors)
        for role, errors in (("multi_task", together), ("single_task", apart), ("pooled", together))
    ]
    pair = summarize_choice(report_of(entries), unsuitable=[], dropped=[])["together_or_pooled"]
    assert (pair["verdict"], pair["gain"], pair["reason"]) == ("equal", 0.0, None)
    assert choice_of(together, apart)["together_or_pooled"] is None


@pytest.mark.parametrize("p_value", [0.001, 0.5])
def test_a_loss_is_never_said_to_hurt(p_value) -> None:
    found = choice_of(*errors_of([0.5, 0.6, 0.55, 0.6]), p_value=p_value)
    pair = found["together_or_apart"]
    assert (pair["verdict"], pair["certainty"]) == ("unclear", None)
    assert pair["high"] < 0
    words = " ".join(found["sentences"])
    assert "cannot be told" in words
    assert "no gain was found" in words
    assert "hurt" not in words + headline_of(found)


def test_the_uncertainty_of_a_gain_covers_tasks_and_splits() -> None:
    """Gains that differ between tasks are as uncertain as their mean over tasks."""
    ratios = [1.6, 0.8, 1.5, 0.9]
    pair = choice_of(*errors_of(ratios, noise=1e-6))["together_or_apart"]
    gains = 1 - 1 / np.array(ratios)
    reach = 3.182446305284263 * gains.std(ddof=1) / 2  # t quantile, three degrees
    assert pair["high"] - pair["gain"] == pytest.approx(reach, rel=1e-3)
    # of equal gains of tasks, the spread over splits remains
    same = choice_of(*errors_of([1.2] * 40, noise=0.3))["together_or_apart"]
    assert same["high"] - same["low"] > 0.01


def test_gains_of_tasks_are_drawn_to_their_mean() -> None:
    ratios = np.array([1.1, 1.2, 1.3, 1.4, 2.0])
    found = choice_of(*errors_of(ratios, noise=1e-9))
    L = np.log(ratios)
    expected = 1 - np.exp(-(L.mean() + (L - L.mean()) / 4))
    gains = [task["gain"] for task in found["tasks"].values()]
    np.testing.assert_allclose(gains, expected, rtol=1e-6)
    reach = 2.13184678 * L.std(ddof=1) * np.sqrt(1.2)  # 90 %, four degrees
    lows = 1 - np.exp(-(L.mean() + (L - L.mean()) / 4 - reach))
    np.testing.assert_allclose([task["low"] for task in found["tasks"].values()], lows, rtol=1e-6)
    assert found["task_confidence"] == 0.9
    assert reports.gains(found, GROUPS).columns[3] == "90 % interval"


@pytest.mark.slow
def test_intervals_of_tasks_cover_nine_of_ten() -> None:
    rng = np.random.default_rng(0)
    n_covered = n = 0
    for _ in range(300):
        truth = 0.2 + 0.05 * rng.normal(size=12)  # spread of tasks
        seen = np.exp(truth + 0.14 * rng.normal(size=12))  # error of few rows
        tasks = choice_of(*errors_of(seen, n_splits=2, noise=1e-9))["tasks"].values()
        gains = 1 - np.exp(-truth)
        n_covered += sum(
            task["low"] <= g <= task["high"] for task, g in zip(tasks, gains, strict=True)
        )
        n += 12
    assert 0.88 < n_covered / n < 1.0


@pytest.mark.parametrize(("n_rows", "expected"), [(39, "unclear"), (40, "hurts")])
def test_no_task_of_few_rows_is_said_to_lose(n_rows, expected) -> None:
    found = choice_of(*errors_of([0.5] * 4, noise=1e-3), n_rows=n_rows)
    assert {task["verdict"] for task in found["tasks"].values()} == {expected}
    assert ("tasks lose by" in " ".join(found["sentences"])) == (expected == "hurts")


def test_scores_without_errors_have_gains_all_the_same() -> None:
    together = {f"t{t}": [0.0, 0.0, 0.0] for t in range(3)}
    apart = {"t0": [0.0, 0.0, 0.0], "t1": [0.2, 0.4, 0.3], "t2": [0.1, 0.2, 0.1]}
    tasks = choice_of(together, apart)["tasks"]
    assert tasks["t0"]["gain"] == 0
    assert all(np.isfinite(task["low"]) for task in tasks.values())


def test_the_learning_curve_says_how_many_rows_would_settle_it() -> None:
    curve = {
        "reason": None,
        "points": [{"rows": rows} for rows in (2.0, 4.0, 6.0, 8.0)],
        **dict.fromkeys(("stops_at", "low"), 5.0),
        "high": None,
        "max_rows": 80.0,
        "rows_needed": 19.5,
        "tasks_factor": 2.0,
        "methods": [
            {"algorithm": "ridge", "role": "pooled"},
            {"algorithm": "ridge", "role": "single_task"},
        ],
    }
    found = choice_of(*errors_of([1.2, 0.9, 1.3, 0.9]), p_value=0.3, curve=curve)
    assert found["together_or_apart"]["verdict"] == "unclear"
    words = " ".join(found["sentences"])
    assert "about 12 more rows per task would settle it" in words
    assert "Learning together helps" not in words  # the curve says no more than the verdict
    shown = choice_of(*errors_of([1.2, 1.25, 1.3, 1.2]), curve=curve)
    assert "Learning together helps" in " ".join(shown["sentences"])


def report_json(report):
    """Return a report as the API stores it."""
    rows = {"n_rows": 1, "n_units": 1, "largest_unit": 1, "n_never_held_out": 0, "warnings": []}
    return {**report, "left_out": [], "budget_s": 1.0, "rows": rows, "curve": None}


def test_the_api_shows_new_reports_and_old_ones() -> None:
    new = report_json(choice_of(*errors_of([1.2, 1.3, 1.1, 1.25])))
    shown = Choice.model_validate(new).model_dump()
    assert shown["alignment"]["null"] == "signs"
    assert shown["together_or_apart"]["certainty"] == "very likely"
    assert shown["sentences"] == new["sentences"]
    old = {k: v for k, v in new.items() if k not in ("alignment", "task_confidence")}
    pair = {k: v for k, v in old["together_or_apart"].items() if k != "certainty"}
    old["together_or_apart"] = {**pair, "verdict": "hurts"}
    shown = Choice.model_validate(old).model_dump()
    assert shown["together_or_apart"]["verdict"] == "hurts"
    assert headline_of(shown).startswith("Learning the 4 groups together lowers")
    assert reports.gains(shown, GROUPS).columns[3] == "95 % interval"
    one = {**old, "tasks": {"t0": old["tasks"]["t0"]}}
    assert Choice.model_validate(one).model_dump()["together_or_apart"]["certainty"] is None


def persons_and_items(rng) -> TaskSet:
    """Return 50 persons who rated 15 of 24 items; effects of persons and items add up."""
    effects = rng.normal(size=24)
    tasks = []
    for person in range(50):
        items = np.sort(rng.permutation(24)[:15])
        y = effects[items] + rng.normal() + 0.5 * rng.normal(size=15)
        tasks.append(Task.from_rows(f"person {person}", np.eye(24)[items], y=y))
    return TaskSet(tuple(tasks))


@pytest.mark.slow
def test_effects_of_persons_and_items_that_add_up_are_not_said_to_hurt() -> None:
    tasks = persons_and_items(np.random.default_rng(0))
    _, report = auto(tasks, algorithms=FAST, splits=Splits(n_folds=2, repeats=1))
    assert report["together_or_apart"]["verdict"] != "hurts"
    assert "hurt" not in " ".join(report["sentences"])


def counties(rng) -> TaskSet:
    """Return 20 counties of 6 houses: a yes/no column, and a column that counties have alone."""
    tasks = []
    for county in range(20):
        X = np.column_stack([rng.integers(0, 2, size=6), np.full(6, rng.normal())])
        y = rng.normal() + 0.8 * rng.normal(size=6)
        tasks.append(Task.from_rows(f"county {county}", X, y=y))
    return TaskSet(tuple(tasks))


@pytest.mark.slow
def test_constants_of_counties_are_neither_said_to_help_nor_to_hurt() -> None:
    _, report = auto(counties(np.random.default_rng(0)), algorithms=FAST, splits=FEW)
    assert report["together_or_apart"]["verdict"] not in ("helps", "hurts")
