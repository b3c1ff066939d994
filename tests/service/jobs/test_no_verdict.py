"""A file of one task: no verdict over HTTP, on the pages, in the terminal and in notebooks."""

import re

import httpx
import numpy as np
import pytest

from algorithms.evaluation.comparison.no_verdict import FEW_SCORES, NO_VERDICT, ONE_TASK
from service.jobs.reading import read_jobs
from service.storage.tables import DatasetRow, JobRow
from sibling.commands.models import print_report

#: What earlier versions said if there was no test.
UNTESTED = (
    "It is unclear whether learning together helps: there are too few splits, or no method learns "
    "each task alone."
)
SPLITS = {"n_folds": 3, "repeats": 1}
#: Words of a verdict on learning together.
VERDICT = re.compile(
    r"learning (the )?tasks? ?together|together (or pooled )?(helps|hurts|makes)|"
    r"makes no difference|whether it helps|gain of learning",
    re.IGNORECASE,
)


@pytest.fixture
def one_task(client, tmp_path):
    """Return a dataset of a whole file without a task column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    lines = [",".join(f"{v:.4f}" for v in (*row, row[0] + rng.normal())) for row in X]
    file = tmp_path / "whole.csv"
    file.write_text("\n".join(["a,b,c,y", *lines]))
    return client.upload(file, target_column="y")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("mtfl", {"compare": {"splits": SPLITS}}),
        ("auto", {"algorithms": ["constant", "ridge"], "splits": SPLITS, "curve": True}),
    ],
)
def test_a_file_of_one_task_has_no_verdict_anywhere(
    client, service, one_task, capsys, algorithm, options
) -> None:
    job = client.train(one_task, algorithm, model=f"one-{algorithm}", **options)
    model = job.wait()
    report = model.report()
    study = report["comparison"] or report["choice"]
    pair = study.get("sharing") or study["together_or_apart"]
    assert (pair["verdict"], pair["reason"], pair["gain"]) == (NO_VERDICT, ONE_TASK, None)
    result = job.info["result"]
    shown = result.get("together_or_apart") or result
    assert (shown["verdict"], shown["reason"]) == (NO_VERDICT, ONE_TASK)
    assert {"gains", "learning-curve"}.isdisjoint(plot["name"] for plot in model.plots())
    print_report(report)
    texts = [model._repr_html_(), " ".join(capsys.readouterr().out.split())]
    paths = ("/", f"/models/{model.name}/1", f"/jobs/{job.id}")
    overview, page, job_page = (httpx.get(service.url + path).text for path in paths)
    assert "There is one group, so that nothing can be learned together" in page
    for text in (*texts, overview):
        assert ONE_TASK in text
    for text in (*texts, page, job_page):
        found = [one for one in re.split(r"[.<>]", text) if VERDICT.search(one)]
        assert [one for one in found if ONE_TASK not in one] == []


@pytest.mark.parametrize(
    ("n_tasks", "sentence", "reason"),
    [
        (1, "Learning together hurts on this data.", ONE_TASK),
        (2, "Learning together hurts on this data.", None),
        (2, UNTESTED, FEW_SCORES),
    ],
)
def test_results_of_earlier_versions_follow_the_rule(
    database, new_job, n_tasks, sentence, reason
) -> None:
    job_id = new_job()
    former = {"verdict": "hurts", "sentence": sentence}
    with database.write() as session:
        tasks = [{"name": f"t{i}"} for i in range(n_tasks)]
        session.get_one(DatasetRow, "ds_1").manifest = {"tasks": tasks}
        session.get_one(JobRow, job_id).result = former
    with database.read() as session:
        (job,) = read_jobs(session, [session.get_one(JobRow, job_id)])
    assert job.result["reason"] == reason
    if reason is None:
        assert job.result == {**former, "reason": None}
    else:
        assert job.result["verdict"] == NO_VERDICT
        assert reason in job.result["sentence"]
