"""The pages of a job that runs, and of its result, answer in the words of the data."""

import re

import numpy as np
import pandas as pd
import pytest

from algorithms.evaluation.choice.automatic_verdict import more_rows
from algorithms.evaluation.comparison.no_verdict import ONE_TASK
from service.ui import formats
from service.ui.views.answer import (
    Subject,
    count_gains,
    headline,
    how_far_off,
    kinds,
    lead,
    measures,
    who_gains,
)
from service.ui.views.bars import Value, bars_of
from service.ui.views.choices import leaderboards
from service.ui.views.glossary import GLOSSARY, TERMS
from service.ui.views.importance import what_matters
from service.ui.views.monitor import monitor_tables
from service.ui.views.race import race_view
from service.ui.views.words import GroupWords, ScoreWords

HOSPITALS = GroupWords.of("hospital")


@pytest.mark.parametrize(
    ("column", "one", "many"),
    [
        ("hospital", "hospital", "hospitals"),
        ("City", "city", "cities"),
        ("branch", "branch", "branches"),
        ("person", "person", "people"),
        ("species", "species", "species"),
        ("hospitals", "group", "groups"),
        ("Krankenhaus", "Krankenhaus", "Krankenhaus"),
        ("Klinik", "Klinik", "Klinik"),
        ("École", "École", "École"),
        ("SITE", "site", "sites"),
        ("task", "group", "groups"),
        ("school_id", "group", "groups"),
        ("Kita Nr.", "group", "groups"),
        (None, "group", "groups"),
    ],
)
def test_groups_have_the_name_of_their_column_if_it_is_a_noun(column, one, many):
    words = GroupWords.of(column)
    assert (words.one, words.many) == (one, many)


def test_words_of_the_api_on_pages_say_what_they_mean(http):
    page = http.get("/datasets").text
    # the heading of a list that cannot be sorted by it, and the text that a press shows
    assert (
        f'popovertarget="term-group" title="{GLOSSARY["Groups"].meaning}">Groups</button>' in page
    )
    assert page.count('id="term-group"') == 1
    assert len({term.one for term in TERMS}) == len(TERMS)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "2 tasks have no held-out rows; task 'task' has one",
            "2 hospitals have no rows left out for checking; hospital 'task' has one",
        ),
        (
            "mixed-model (tasks together) 59%, ridge (all tasks pooled) 41%",
            "Linear mixed model (hospitals together) 59%, Ridge regression (one model for all) 41%",
        ),
        (
            "by the rows that 5 splits hold out",
            "by the rows that 5 splits leave out for checking",
        ),
        ("it is left out; declare column_kind=id:category to use it", None),
        ("pass tasks= or `task`", "pass tasks= or `task`"),
        (
            "the task's column 'stroop task' has no held-out row",
            "the hospital's column 'stroop task' has no held-out row",
        ),
    ],
)
def test_sentences_of_the_api_are_said_in_the_words_of_pages(sentence, expected):
    said = GroupWords.of("hospital").said(sentence)
    assert said == (expected or "it is left out; call it a category on upload to use it")


def test_an_error_rate_is_a_percentage_and_another_score_has_three_digits():
    report = {"metric": "error_rate", "title": "Error rate", "larger_is_better": False}
    report |= {"average": "tasks", "unit": "died"}
    words = GroupWords.of("hospital")
    score = ScoreWords.of(report, words)
    assert (score.text(0.194), score.interval({"low": 0.141, "high": 0.247})) == (
        "19 %",
        "14 to 25 %",
    )
    assert score.name == "share of wrong predictions, mean over hospitals"
    rmse = ScoreWords.of(report | {"metric": "rmse", "title": "RMSE", "unit": "days"}, words)
    assert (rmse.text(1.23456), rmse.name) == (
        "1.23",
        "typical error (RMSE) of days, mean over hospitals",
    )


def running(**race):
    best = [
        {
            "kind": "multi_task",
            "algorithm": "gp",
            "role": "multi_task",
            "variant": "",
            "value": 1.2,
        },
        {"kind": "single_task", "algorithm": "ridge", "role": "single_task", "variant": ""}
        | {"value": 1.8},
    ]
    counts = {"n_methods": 11, "n_scored": 4, "n_left_out": 1, "best": best}
    words = {"metric": "rmse", "title": "RMSE", "larger_is_better": False, "average": "tasks"}
    race = words | counts | race
    return {"is_final": False, "is_finishing": False, "progress": {"race": race}}


def test_a_race_shows_the_best_of_each_kind_so_far_and_no_verdict():
    view = race_view(running(), HOSPITALS, "days")
    assert view.title == "So far, error of days: 1.20 together, 1.80 alone"
    assert view.sentence.startswith("4 of 11 methods are scored. 1 method failed or took too long.")
    names = [(bar.value.name, bar.value.detail) for bar in view.bars.bars]
    assert names == [
        ("Together", "Multi-task Gaussian process"),
        ("Each hospital alone", "Ridge regression"),
    ]
    assert view.bars.bars[0].length == pytest.approx(view.bars.bars[1].length * 1.2 / 1.8, rel=1e-3)
    assert "of days" in view.caption


def test_a_job_without_a_race_or_at_its_end_shows_none():
    for job in (
        {"is_final": False, "progress": None},
        {"is_final": False, "progress": {"race": None}},
        running() | {"is_final": True, "result": None},
    ):
        assert race_view(job, HOSPITALS, "days") is None


@pytest.mark.slow  # two jobs
def test_a_job_names_groups_by_their_column_when_its_dataset_is_gone(http, client):
    rows = pd.DataFrame({"shop": list("ab") * 6, "price": np.arange(12), "sales": np.arange(12)})
    options = {"task_column": "shop", "target_column": "sales"}
    data, applied = (client.upload(part, **options) for part in (rows, rows[:10]))
    model = client.train(data, "ridge", model="of-shops").wait()
    job = client.infer(model, "predict", applied)
    job.wait()
    client.delete_dataset(applied.id)
    assert "the outputs for 10 rows of 2 shops." in http.get(f"/jobs/{job.id}").text


def test_marks_are_on_the_scale_of_the_values_and_have_a_legend():
    def value(at, mark, kind="same"):
        return Value("a", "", kind, at, None, None, "", mark=mark)

    legend = {"mark": "promised", "hurts": "an alarm"}
    drawn = bars_of([value(1.0, 4.0), value(2.0, None)], shape="dot", legend=legend)
    assert [bar.mark for bar in drawn.bars] == [99.0, None]
    assert drawn.bars[0].at == pytest.approx(1.0 + 98.0 / 4)
    assert drawn.legend == {"mark": "promised"}
    assert bars_of([value(1.0, None)], legend=legend).legend == {}
    assert bars_of([value(1.0, 4.0, "hurts")], legend=legend).legend == legend


ABOUT = Subject(40, HOSPITALS, "days")


def choice(verdict="helps", *, gain=0.36, low=0.26, high=0.455, **more):
    """Return the parts of the report of an automatic choice that pages show."""
    pair = {"verdict": verdict, "certainty": None, "reason": None, "gain": gain, "low": low}
    pair |= {"high": high, "first_value": 1.51 - gain, "second_value": 1.51}
    pair |= {name: more.pop(name) for name in ("certainty", "reason") if name in more}
    report = {"metric": "rmse", "title": "RMSE", "unit": "days", "larger_is_better": False}
    report |= {"average": "tasks", "together_or_apart": pair, "rows": {"n_rows": 480}}
    return report | {"tasks": dict.fromkeys(range(40)), "estimate": {"value": 1.15}} | more


@pytest.mark.parametrize(
    ("study", "said"),
    [
        (
            choice(certainty="very likely"),
            "Learning the 40 hospitals together very likely lowers the error, by about 24\u202f%",
        ),
        (
            choice(certainty="probably"),
            "Learning the 40 hospitals together probably lowers the error, by about 24\u202f%",
        ),
        (choice("unclear"), "Whether learning the 40 hospitals together helps cannot be told"),
        (choice("equal"), "Learning the 40 hospitals together makes no relevant difference"),
        (
            choice(metric="auc", title="AUC", certainty="probably", gain=-0.36),
            "Learning the 40 hospitals together probably raises the AUC from 1.51 to 1.87",
        ),
        (
            choice("none", reason="a side has no method"),
            "There is no verdict on learning the 40 hospitals together: a side has no method",
        ),
        (
            choice("none", reason=ONE_TASK),
            "There is one hospital, so that nothing can be learned together",
        ),
    ],
)
def test_the_first_line_is_as_sure_as_the_verdict(study, said):
    assert headline(study, ABOUT) == said


def test_the_lead_has_the_scores_the_gain_and_its_interval_in_units_of_the_target():
    assert lead(choice(certainty="very likely"), ABOUT) == (
        "Predictions of days are typically off by 1.15, and by 1.51 when each hospital is learned "
        "alone. The gain is 0.36 (0.26 to 0.46 with 95 % confidence)."
    )


@pytest.mark.parametrize("certainty", ["very likely", "probably"])
def test_a_word_that_is_surer_than_the_interval_of_the_gain_says_what_it_is_of(certainty):
    study = choice(low=-0.06, certainty=certainty, alignment={"p_value": 0.0031})
    assert headline(study, ABOUT) == (
        f"Learning the 40 hospitals together {certainty} helps; by how much is not clear"
    )
    assert lead(study, ABOUT).endswith(
        "The gain is 0.36 (-0.06 to 0.46 with 95 % confidence). This interval has 0 in it, so that "
        f"the size of the gain is not clear. “{certainty.capitalize()}” is of another test, "
        "whether what the hospitals show, each learned alone, points the same way (p = 0.0031)."
    )
    sure = choice(certainty=certainty, alignment={"p_value": 0.0031})
    assert "another test" not in lead(sure, ABOUT)


@pytest.mark.parametrize(
    ("verdict", "gain", "low", "high", "said"),
    [
        (
            "unclear",
            0.02,
            -0.01,
            0.05,
            "may be as good: the gain over it is 0.020 (-0.010 to 0.050",
        ),
        ("equal", 0.002, -0.001, 0.005, "does practically as well."),
        ("hurts", -0.2, -0.3, -0.1, "is better: the gain over it is -0.20 (-0.30 to -0.10"),
        ("helps", 0.2, 0.1, 0.3, None),
        ("none", None, None, None, None),
    ],
)
def test_one_model_for_all_is_named_unless_it_is_shown_to_be_worse(verdict, gain, low, high, said):
    pair = {"verdict": verdict, "gain": gain, "low": low, "high": high, "second_value": 1.17}
    text = lead(choice(certainty="probably", together_or_pooled=pair), ABOUT)
    beginning = "One model for all hospitals, typically off by 1.17, "
    assert said is None or f"confidence). {beginning}{said}" in text
    assert said is not None or "One model" not in text
    # whether learning together helps is not known then
    assert "One model" not in lead(choice("unclear", together_or_pooled=pair), ABOUT)
    # and a report of an earlier version does not have it
    assert "One model" not in lead(choice(certainty="probably"), ABOUT)


def compared(together, tied):
    """Return a comparison in which learning together helps, with the methods of its best."""
    label = {"algorithm": "ridge", "variant": ""}
    rows = [("mtfl", "candidate", 0.3), ("ridge", "pooled", 0.31), ("ridge", "single_task", 0.4)]
    methods = [label | {"algorithm": a, "role": r, "value": v} for a, r, v in rows]
    pair = {"verdict": "helps", "gain": 0.1, "low": 0.05, "high": 0.15}
    sharing = pair | {"together": methods[together], "apart": methods[2]}
    best = methods[together] | {"tied": [methods[i] for i in tied]}
    study = {"metric": "error_rate", "title": "Error rate", "larger_is_better": False}
    return study | {"average": "tasks", "methods": methods, "sharing": sharing, "best": best}


def test_a_comparison_names_one_model_for_all_unless_it_is_shown_to_be_worse():
    text = lead(compared(0, [1]), ABOUT)
    assert text.endswith(
        "confidence). One model for all hospitals, wrong in 31 %, is not shown to be worse than "
        "the best method."
    )
    assert "One model" not in lead(compared(0, []), ABOUT)
    assert lead(compared(1, [0]), ABOUT).endswith("That is by one model for all hospitals.")


def test_what_would_settle_an_unclear_gain_is_said_and_only_then():
    unclear = choice("unclear", gain=0.1, low=-0.02, high=0.22)
    # half width 0.12 needs (0.12 / 0.1)² = 1.44 times the 12 rows of a hospital
    assert "About 6 more rows per hospital would settle it" in lead(unclear, ABOUT)
    assert more_rows(choice("equal", gain=0.1, low=-0.02, high=0.22)) is None
    assert "would settle it" not in lead(choice("unclear", gain=-0.1, low=-0.2, high=0.1), ABOUT)


def test_the_ends_of_an_auc_are_said():
    study = choice(metric="auc", title="AUC", larger_is_better=True, gain=-0.36)
    assert "is 1.87 (0.5 by chance, 1 at best), and it is 1.51" in lead(study, ABOUT)
    caption = ScoreWords.of(study, HOSPITALS).caption
    assert caption.endswith("; longer is better (0.5 by chance, 1 at best)")


def gains(n, **more):
    tasks = {
        f"h{i}": {"gain": n / 2 - i, "low": n / 2 - i - 5, "high": n / 2 - i + 5} for i in range(n)
    }
    known = {name: {**one, "verdict": "unclear"} for name, one in tasks.items()}
    return choice(tasks=known, task_confidence=0.9, **more)


def test_up_to_thirty_groups_are_all_shown_and_of_more_both_ends():
    whole = who_gains(gains(30), HOSPITALS)
    assert (len(whole.bars.bars), whole.rest) == (30, None)
    ends = who_gains(gains(40), HOSPITALS)
    shown = [bar.value.name for part in (ends.bars, ends.rest) for bar in part.bars]
    assert shown == [f"h{i}" for i in (*range(10), *range(30, 40))]
    assert ends.more == "20 hospitals between"
    assert "(90 %)" in ends.caption
    terms = " ".join(measures(gains(40), None, HOSPITALS))
    assert "root mean squared error (RMSE)" in terms
    assert "90 % interval" in terms
    # both parts have one scale
    assert ends.bars.zero == ends.rest.zero
    count, meaning = count_gains(gains(40), HOSPITALS)
    assert count == "20 of 40"
    assert meaning == (
        "hospitals have an estimated gain. Looked at one by one, neither a gain nor a "
        "loss is clear for any"
    )
    count, meaning = count_gains(gains(2), HOSPITALS)
    assert f"{count} {meaning}".startswith("1 of 2 hospitals has an estimated gain.")
    part = gains(40)
    part["tasks"]["h0"] |= {"gain": None}
    count, meaning = count_gains(part, HOSPITALS)
    assert count == "19 of 39"
    assert meaning.startswith("hospitals have an estimated gain (that of 1 more is not known).")


@pytest.mark.parametrize(
    ("metric", "has_classes", "shared", "texts", "unit"),
    [
        (
            None,
            False,
            [0.534, 0.1, 0.004],
            ["53 %", "10 %", "< 1 %"],
            "percent of the spread of days",
        ),
        (None, True, [2.0, 0.5, 0.0], ["100 %", "25 %", "0 %"], "percent of the first column"),
        ("r2", False, [0.3123, 0.0041, -0.02], ["0.31", "< 0.01", "0.00"], "a fall above 1 means"),
        ("auc", True, [0.1234, 0.05, 0.0], ["0.12", "0.05", "0.00"], "0.5 by chance"),
        ("accuracy", True, [0.034, 0.02, 0.0], ["3 %", "2 %", "0 %"], "in percentage points"),
    ],
)
def test_what_matters_has_a_unit_and_no_chance_digits(metric, has_classes, shared, texts, unit):
    importance = {"kind": "permutation" if metric else "coefficients", "metric": metric}
    importance |= {"columns": ["age", "dose", "ward"], "shared": shared, "n_columns": 4}
    chart = what_matters(importance, HOSPITALS, target="days", has_classes=has_classes)
    assert [bar.value.text for bar in chart.bars.bars] == texts
    assert unit in chart.caption
    assert chart.more == "1 more column."
    nothing = importance | {"shared": [0.0, 0.0, None]}
    assert what_matters(nothing, HOSPITALS, target="", has_classes=has_classes) is None


def test_how_far_predictions_are_off_holds_for_nine_of_ten_rows_left_out():
    rows = {"true": [float(i) for i in range(20)], "predicted": [0.0] * 20}
    text, meaning = how_far_off({"tasks": {"a": rows}}, None, "days")
    assert (text, meaning) == (
        "± 17",
        "is how far off predictions of days are at most, for 90 % of 20 rows left out for checking",
    )
    labels = {"true": ["y"] * 15 + ["n"] * 5, "predicted": ["y"] * 20}
    text, meaning = how_far_off({"tasks": {"a": labels}}, None, "died")
    # a share of right predictions over rows would contradict a mean over hospitals
    assert (text, meaning) == (
        "0 of 5",
        "rows with “n” are found, among 20 rows left out for checking; 0 others are taken for it",
    )
    labels["predicted"][-1] = labels["predicted"][0] = "n"
    text, meaning = how_far_off({"tasks": {"a": labels}}, None, "died")
    assert (text, meaning.rpartition("; ")[2]) == ("1 of 5", "1 other is taken for it")
    same = {"true": ["y"] * 20, "predicted": ["y"] * 20}
    assert how_far_off({"tasks": {"a": same}}, None, "") is None
    assert how_far_off({"tasks": {"a": {"true": [1.0], "predicted": [2.0]}}}, None, "") is None


def test_methods_are_grouped_by_kind_and_constants_apart():
    rows = [
        {"algorithm": name, "role": role, "variant": "", "value": value, "low": 0.5, "high": 2.0}
        | {"weight": weight, "left_out_tasks": None}
        for name, role, value, weight in (
            ("gp", "multi_task", 1.0, 0.8),
            ("ridge", "pooled", 1.1, 0.2),
            ("mtfl", "multi_task", 1.2, 0.0),
            ("constant", "single_task", 1.9, 0.0),
        )
    ]
    mixed = [
        {"kind": kind, "algorithm": "ensemble", "role": "multi_task", "variant": "", "value": value}
        for kind, value in (("multi_task", 0.9), ("pooled", 1.1), ("trivial", 1.9))
    ]
    study = choice(leaderboard=rows, kinds=mixed)
    assert [bar.value.detail for bar in kinds(study, HOSPITALS).bars.bars] == [
        "best: Multi-task Gaussian process",
        "best: Ridge regression",
        "best: Constant prediction",
    ]
    best, everything = leaderboards(study, HOSPITALS)
    assert [row.cells[0].text for row in best.rows] == [
        "Together",
        "One model for all",
        "Averages only",
    ]
    assert [row.cells[1].text for row in everything.rows] == [
        "Multi-task Gaussian process",
        "Multi-task feature learning",
        "Ridge regression",
        "Constant prediction",
    ]
    assert tuple(best.columns) == (
        "Learns",
        "Method",
        "RMSE",
        "95 % interval",
        "Weight in the model",
    )


@pytest.mark.seconds("trains by an automatic choice, and shows once what its page says")
def test_the_page_of_a_choice_answers_in_the_words_of_its_columns(client, http):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"ward": np.repeat(list("abcdef"), 8), "age": rng.normal(size=48)})
    frame = frame.assign(days=frame.age + 0.3 * rng.normal(size=48))
    data = client.upload(frame, name="wards", task_column="ward", target_column="days")
    algorithms = ["constant", "ridge", "mean-regularised"]
    client.train(data, "auto", model="answered", algorithms=algorithms).wait()
    page = http.get("/models/answered/1")
    job = http.get(f"/jobs/{client.model('answered').info['lineage']['job_id']}").text
    (title,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page.text)
    assert "6 wards together" in title
    assert f">{title}</h1>" in job  # which begins with the answer, too
    assert "Does learning together help?" in job
    assert job.count('class="multi_task"') == 1
    choice = client.model("answered").report()["choice"]
    expected = {"metric": "rmse", "value": choice["estimate"]["value"]}
    for path in ("/v1/models?text=answered", "/v1/models/answered/versions"):
        (item,) = http.get(path).json()["items"]
        assert item["expected_score"] == expected
    for path in ("/models", "/models/answered"):
        assert re.search(r"RMSE [\d.]+\s*<small>expected on new rows", http.get(path).text), path
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.text))
    for text in (
        "Predictions of days are typically off by",
        "Each ward alone",
        "Who gains?",
        "age",
    ):
        assert text in said, text
    assert not re.search(r"\b(tasks?|pooled|held[ -]out)\b", said.partition("Details")[0]), said


def test_numbers_in_a_column_of_a_monitor_have_the_same_digits():
    column = {"task": None, "before": None, "now": None, "alarm_since": None}
    error = {"metric": "rmse", "low": None, "high": None, "alarm_since": None, "promised": None}
    report = {
        "tasks": [
            {"task": name, "is_new": False, "n_rows": 9, "n_targets": 9, "error": one}
            for name, one in (
                ("a", error | {"value": 2.5}),
                ("b", error | {"value": 12.34, "promised": 1.0}),
                ("c", None),
            )
        ],
        "columns": [
            column | {"column": f"x{value}", "stability_index": value}
            for value in (12.0, 0.31, 0.004)
        ],
    }
    errors, columns = monitor_tables(report, HOSPITALS)
    assert [row.cells[3].text for row in errors.rows] == ["2.5", "12.3", formats.NONE]
    assert [row.cells[4].text for row in columns.rows] == ["12.00", "0.31", "0.00"]
