"""The pages of a job that runs, and of its result, answer in the words of the data."""

import pytest

from service.ui.views.race import race_view
from service.ui.views.words import GroupWords, ScoreWords


@pytest.mark.parametrize(
    ("column", "one", "many"),
    [
        ("hospital", "hospital", "hospitals"),
        ("City", "city", "cities"),
        ("branch", "branch", "branches"),
        ("task", "group", "groups"),
        ("school_id", "group", "groups"),
        ("Kita Nr.", "group", "groups"),
        (None, "group", "groups"),
    ],
)
def test_groups_have_the_name_of_their_column_if_it_is_a_noun(column, one, many):
    words = GroupWords.of(column)
    assert (words.one, words.many) == (one, many)


def test_sentences_of_the_api_are_said_in_the_words_of_pages():
    said = GroupWords.of("hospital").said("2 tasks have no held-out rows; task 'task' has one")
    assert said == "2 hospitals have no rows left out for checking; task 'task' has one"


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
    assert (rmse.text(1.23456), rmse.name) == ("1.23", "RMSE of days, mean over hospitals")


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
    race = {"metric": "rmse", "title": "RMSE", "larger_is_better": False, "average": "tasks"} | {
        **{"n_methods": 11, "n_scored": 4, "n_left_out": 1, "best": best},
        **race,
    }
    return {"is_final": False, "progress": {"race": race}}


def test_a_race_shows_the_best_of_each_kind_so_far_and_no_verdict():
    dataset = {"options": {"task_column": "hospital", "target_column": ["days"]}}
    view = race_view(running(), dataset)
    assert view.title == "So far: 1.2 together, 1.8 alone"
    assert view.sentence.startswith("4 of 11 methods are scored. 1 method failed or took too long.")
    names = [(bar.value.name, bar.value.detail) for bar in view.bars.bars]
    assert names == [("Together", "Gaussian process"), ("Each hospital alone", "ridge")]
    assert view.bars.bars[0].length == pytest.approx(view.bars.bars[1].length * 1.2 / 1.8, rel=1e-3)
    assert "of days" in view.caption


def test_a_job_without_a_race_or_at_its_end_shows_none():
    assert race_view({"is_final": False, "progress": None}, None) is None
    assert race_view({"is_final": False, "progress": {"race": None}}, None) is None
    assert race_view(running() | {"is_final": True}, None) is None
