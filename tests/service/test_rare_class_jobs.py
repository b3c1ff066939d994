"""Jobs of tasks with a rare class: metric, recall, and thresholds."""

import html
import json
import re

import numpy as np
import pytest

SPLITS = {"n_folds": 3, "repeats": 1}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of clinics in which 6 % of the rows are ill."""
    rng = np.random.default_rng(0)
    lines = ["clinic,age,dose,state"]
    for clinic in ("north", "south"):
        X = rng.normal(size=(150, 2))
        p = 1 / (1 + np.exp(3.4 - X @ [1.2, -0.6]))
        states = np.where(rng.random(150) < p, "ill", "ok")
        lines += [f"{clinic},{a:.3f},{d:.3f},{s}" for (a, d), s in zip(X, states, strict=True)]
    path = tmp_path_factory.mktemp("clinics") / "clinics.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def clinics(client, table):
    return client.upload(table, task_column="clinic", target_column="state", name="clinics")


def ridge(client, clinics, **options):
    job = client.train(clinics, "ridge", form="pooled", evaluate={"splits": SPLITS}, **options)
    return job.wait()


@pytest.fixture(scope="module")
def plain(client, clinics):
    return ridge(client, clinics, model="rare-plain")


@pytest.mark.slow
def test_a_class_that_is_never_answered_is_named_with_what_to_do(client, clinics, plain):
    found = plain.report()["classes"]
    assert found["by_class"]["ill"]["n_answered"] == 0
    assert "threshold='prevalence'" in found["sentences"][0]
    better = ridge(
        client, clinics, model="rare-better", calibration={"threshold": "prevalence"}
    ).report()
    assert better["classes"]["sentences"] == []
    assert better["classes"]["by_class"]["ill"]["recall"] > 0.5
    assert better["calibration"]["by_class"]["ill"]["recall"] > 0.5


@pytest.mark.slow
def test_a_page_shows_recall_by_class(http, plain):
    page = http.get(f"/models/{plain.name}/{plain.version}")
    text = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.text)))
    assert "Recall in 300 rows left out for checking" in text
    assert "The model never answers 'ill'" in text


@pytest.mark.parametrize("algorithm", ["ridge", "auto"])
def test_a_cost_of_an_unknown_class_is_refused_at_submission(http, clinics, algorithm):
    answer = http.post(
        "/v1/jobs",
        json={
            "dataset_id": clinics.id,
            "algorithm": algorithm,
            "model": "rare",
            "calibration": {"threshold": {"sick": 10}},
        },
    )
    assert answer.status_code == 422
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/calibration/threshold/sick"]


@pytest.mark.slow  # trains by several commands
def test_commands_take_metric_budget_and_threshold(command, service, table, tmp_path):
    def run(*options):
        end = command(
            "train",
            str(table),
            *("--task-column", "clinic", "--target-column", "state", "--json"),
            *options,
            *("--url", service.url),
            cwd=tmp_path,
        )
        assert end.returncode == 0, end
        return json.loads(end.stdout)

    few = ("--param", 'algorithms=["constant","ridge"]', "--param", f"splits={json.dumps(SPLITS)}")
    choice = run("-a", "auto", "--budget-s", "99", *few)["report"]["choice"]
    assert (choice["metric"], choice["budget_s"]) == ("auc", 99)
    choice = run("-a", "auto", "--metric", "error_rate", *few)["report"]["choice"]
    assert choice["metric"] == "error_rate"
    model = run("-a", "ridge", "--threshold", '{"ill":20}')
    assert model["report"]["calibration"]["by_class"]["ill"]["n_answered"] > 0


@pytest.mark.parametrize("option", ["--metric", "--budget-s"])
def test_options_of_choices_are_refused_without_a_choice(command, table, option):
    end = command("train", str(table), "-a", "ridge", option, "7")
    assert end.returncode == 2
    assert option in end.stderr


def test_help_of_train_has_metric_and_budget(command):
    shown = command("train", "--help").stdout
    assert {"--metric", "--budget-s", "--threshold"} <= set(re.findall(r"--[\w-]+", shown))
