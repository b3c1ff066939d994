"""Scores are named by metric, target and average, wherever they are shown."""

import html
import re

import numpy as np
import pytest

from sibling.commands import models as commands

pytestmark = pytest.mark.slow  # comparisons

SPLITS = {"n_folds": 3, "repeats": 1}


def text_of(page):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.text)))


@pytest.fixture(scope="module")
def penguins(client, tmp_path_factory):
    """A table of islands with 15 birds, and one with 6."""
    rng = np.random.default_rng(0)
    lines = ["island,bill,mass"]
    for island, n in (("Biscoe", 15), ("Dream", 15), ("Torgersen", 6)):
        bills = rng.normal(40, 4, n)
        masses = 100 * bills + rng.normal(0, 200, n)
        lines += [f"{island},{b:.2f},{m:.1f}" for b, m in zip(bills, masses, strict=True)]
    path = tmp_path_factory.mktemp("penguins") / "penguins.csv"
    path.write_text("\n".join(lines))
    return client.upload(path, task_column="island", target_column="mass")


@pytest.fixture(scope="module")
def compared(client, penguins):
    job = client.train(
        penguins,
        "mtfl",
        model="named-scores",
        compare={"splits": SPLITS, "average": "rows"},
        evaluate={"splits": SPLITS},
    )
    return job.wait()


def test_a_report_names_the_unit_and_the_tasks_with_too_few_rows_for_a_ratio(compared):
    report = compared.report()
    evaluation, comparison = report["evaluation"], report["comparison"]
    assert (evaluation["unit"], comparison["unit"]) == ("mass", "mass")
    assert evaluation["few_rows"] == comparison["few_rows"] == ["Torgersen"]
    assert evaluation["by_task"]["r2"]["Torgersen"] is None
    assert evaluation["by_task"]["rmse"]["Torgersen"] > 0
    assert "Torgersen" in evaluation["without_value"]["r2"]
    of_others = [evaluation["by_task"]["r2"][island] for island in ("Biscoe", "Dream")]
    assert evaluation["mean"]["r2"] == pytest.approx(np.mean(of_others))
    assert any("Torgersen" in sentence for sentence in evaluation["sentences"])
    assert any("RMSE of mass (over all rows)" in text for text in comparison["sentences"])


def test_a_page_shows_both_averages_by_their_names(http, compared):
    page = text_of(http.get(f"/models/{compared.name}/{compared.version}"))
    assert "ypical error (RMSE) of mass, over all rows" in page
    assert "Mean over islands 95 % interval Over all rows" in page
    assert "RMSE of mass on rows left out for checking" in page
    assert "too few for ratios" in page


def test_a_command_shows_both_averages_by_their_names(capsys, compared):
    commands.print_report(compared.report())
    shown = capsys.readouterr().out
    assert "mean over tasks" in shown
    assert "over all rows" in shown
    assert "in units of mass" in shown


def test_the_sentences_of_an_automatic_choice_name_unit_and_average(client, penguins):
    options = {"algorithms": ["ridge", "constant"], "splits": SPLITS}
    report = client.train(penguins, "auto", model="named-choice", **options).wait().report()
    expected = next(s for s in report["choice"]["sentences"] if s.startswith("Expected"))
    assert "RMSE of mass (mean over tasks)" in expected


def test_a_ratio_of_tasks_that_are_all_small_is_refused_at_submission(http, client):
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(9, 2)) for name in "ab"}
    data = client.upload(rows, {name: X @ [1.0, 2.0] for name, X in rows.items()})
    body = {"dataset_id": data.id, "algorithm": "mtfl", "model": "small"}
    answer = http.post("/v1/jobs", json={**body, "compare": {"metric": "r2"}})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/compare/average"
    by_rows = {"metric": "r2", "average": "rows"}
    answer = http.post("/v1/jobs", json={**body, "compare": by_rows})
    assert answer.status_code == 202, answer.text
