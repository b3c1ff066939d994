"""The expected time of jobs: at submission, on the job, its page and the command line."""

from datetime import timedelta

import httpx
import numpy as np
import pytest

from algorithms.evaluation.comparison.comparison import CompareOptions, EvaluateOptions
from algorithms.evaluation.selection.search import SearchOptions
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import with_share
from algorithms.registry import ALGORITHMS
from algorithms.wrappers.calibration.options import Calibration
from service.jobs.duration import MAX_JOBS, MIN_JOBS, correction, estimate_time
from service.jobs.queue import store
from service.jobs.studies.plans import StudyOptions, plan_job
from service.storage.database import now
from service.storage.job_states import JobState
from service.storage.tables import JobRow
from tests.service.stored import dataset_row, job_of

ROOT = "/v1/jobs"
#: An optimisation of this many starts goes on until it is cancelled.
ENDLESS = {"n_init": 100, "tolerance": 1e-12, "floor": 1e-6}


@pytest.fixture
def http(service):
    with httpx.Client(base_url=service.url, timeout=240) as http:
        yield http


@pytest.fixture
def rows(client):
    rng = np.random.default_rng(0)
    X = {name: rng.standard_normal((60, 12)) for name in ("a", "b")}
    y = {name: x[:, 0] + rng.standard_normal(60) for name, x in X.items()}
    return client.upload(X, y, name="timed")


@pytest.fixture
def ended_job(database):
    """Return a function that stores an ended job, with its expected and its run time."""
    with database.write() as session:
        session.add(dataset_row())

    def create(reference_s, run_s, *, state=JobState.SUCCEEDED, attempt=1):
        job = job_of(expected_s=reference_s, reference_s=reference_s)
        with database.write() as session:
            row = session.get_one(JobRow, store.create(session, job).id)
            row.state, row.attempt = state, attempt
            row.started_at = now()
            row.finished_at = row.started_at + timedelta(seconds=run_s)

    return create


def corrected(database):
    with database.read() as session:
        return correction(session)


@pytest.mark.sql
def test_the_correction_is_the_median_of_the_last_jobs(database, ended_job):
    assert corrected(database) == 1.0
    for _ in range(MIN_JOBS - 1):
        ended_job(2.0, 6.0)
    assert corrected(database) == 1.0  # too few
    ended_job(2.0, 400.0)  # an outlier
    assert corrected(database) == pytest.approx(3.0)
    for _ in range(MAX_JOBS):
        ended_job(10.0, 5.0)
    assert corrected(database) == pytest.approx(0.5)


@pytest.mark.sql
def test_the_correction_leaves_out_what_says_nothing_about_the_speed(database, ended_job):
    for _ in range(MIN_JOBS):
        ended_job(4.0, 8.0)
    for _ in range(2 * MIN_JOBS):
        ended_job(4.0, 0.9)  # too short
        ended_job(0.01, 30.0)  # the start of the process, mostly
        ended_job(None, 80.0)  # several attempts
        ended_job(4.0, 80.0, state=JobState.FAILED)
        ended_job(4.0, 80.0, attempt=2)
    assert corrected(database) == pytest.approx(2.0)


def test_the_correction_is_bounded(database, ended_job):
    for _ in range(MIN_JOBS):
        ended_job(1.0, 1e6)
    assert corrected(database) == 20.0


def test_only_a_fit_that_is_long_enough_has_a_time_at_reference_speeds(database):
    algorithm = ALGORITHMS["fmtl"]
    params = algorithm.parse({})
    for n, is_known in ((100, False), (2000, True)):
        with database.read() as session:
            found = estimate_time(
                session, algorithm, summaries(n=n), params, calibration=None, study=None, n_slots=1
            )
        assert (found.reference_s is not None) == is_known
        assert found.reference_s in (None, found.expected_s)


def test_a_race_is_expected_to_end_at_its_budget(database):
    ensemble = ALGORITHMS["ensemble"]
    with database.read() as session:
        found = estimate_time(
            session,
            ensemble,
            summaries(T=40, n=2000, d=20),
            ensemble.parse({"budget_s": 5.0}),
            calibration=None,
            study=None,
            n_slots=1,
        )
    assert found.expected_s == pytest.approx(5.0)
    assert found.reference_s is None


def summaries(T=4, n=100, d=10):
    return tuple(TaskSummary(f"t{t}", n, d, target="numbers") for t in range(T))


def estimate(database, *, calibration=None, n_slots=1, values=None, **options):
    algorithm, tasks = ALGORITHMS["fmtl"], summaries()
    params = algorithm.parse(values or {})
    study = None
    if options:
        study = plan_job(algorithm, {}, tasks, StudyOptions(**options), seed=0)
    with database.read() as session:
        return estimate_time(
            session, algorithm, tasks, params, calibration=calibration, study=study, n_slots=n_slots
        )


def alone(share=1.0, **values):
    algorithm = ALGORITHMS["fmtl"]
    return algorithm.work(with_share(summaries(), share), algorithm.parse(values)).seconds


def test_a_study_takes_the_time_of_all_its_fits(database):
    plain = estimate(database)
    assert plain.expected_s == pytest.approx(alone())
    evaluated = estimate(database, evaluate=EvaluateOptions())
    assert evaluated.reference_s is None
    assert evaluated.expected_s == pytest.approx(alone() + 10 * alone(0.8))
    assert estimate(database, n_slots=None, evaluate=EvaluateOptions()).expected_s == pytest.approx(
        evaluated.expected_s
    )
    calibrated = estimate(database, calibration=Calibration(n_folds=2))
    assert calibrated.expected_s == pytest.approx(alone() + 2 * alone(0.5))
    compared = estimate(database, compare=CompareOptions())
    assert compared.expected_s > 2 * evaluated.expected_s
    assert compared.longest.seconds < compared.expected_s


def test_fits_that_run_at_the_same_time_count_once(database):
    options = EvaluateOptions()
    for n_slots in (2, 4):
        found = estimate(database, n_slots=n_slots, evaluate=options)
        assert found.expected_s == pytest.approx(alone() + 10 * alone(0.8) / n_slots)


@pytest.mark.parametrize("method", ["grid", "halving"])
def test_a_search_takes_the_time_of_its_rounds(database, method):
    space = {"gamma": [0.1 * i for i in range(1, 13)]}
    search = SearchOptions.model_validate({"space": space, "method": method, "n_folds": 4})
    found = estimate(database, search=search).expected_s
    most = alone() + 12 * 4 * alone(0.75)
    if method == "grid":
        assert found == pytest.approx(most)
    else:
        assert alone() + 12 * alone(0.75) < found < most


def test_the_correction_applies_to_every_estimate(database, ended_job):
    before = estimate(database)
    for _ in range(MIN_JOBS):
        ended_job(2.0, 8.0)
    after = estimate(database)
    assert after.expected_s == pytest.approx(4 * before.expected_s)
    assert after.longest == before.longest


def test_a_job_longer_than_its_limit_has_a_warning_with_what_to_do(database):
    found = estimate(database, values={"C": 1.0})
    assert found.warnings("fmtl", timeout_s=3600) == []
    (warning,) = found.warnings("fmtl", timeout_s=1e-4)
    assert "fmtl is expected to take about 1 s for the kernel matrix of 400 rows" in warning
    assert "'timeout_s' = 0.0001" in warning
    assert "use nystrom=2000, or kernel 'linear', or set 'timeout_s' to 1" in warning


def test_the_service_says_at_submission_how_long_a_job_takes(client, http, rows):
    spec = {"dataset_id": rows.id, "algorithm": "fmtl", "model": "timed", "params": {"C": 1.0}}
    valid = http.post(ROOT, params={"validate_only": True}, json=spec).json()
    assert valid["expected_s"] > 0
    assert valid["warnings"] == []
    short = {**spec, "timeout_s": 1e-4}
    warned = http.post(ROOT, params={"validate_only": True}, json=short).json()
    (warning,) = warned["warnings"]
    assert "use nystrom=2000" in warning
    # it is accepted
    job = http.post(ROOT, json=short).json()
    assert job["warnings"] == [warning]
    assert job["expected_s"] > 0
    done = client.train(rows, "fmtl", model="timed", evaluate=True)
    assert done.info["expected_s"] > valid["expected_s"]
    assert done.expected.startswith("about ")
    done.wait()
    parts = http.get(ROOT, params={"parent_id": done.id}).json()["items"]
    assert {part["expected_s"] for part in parts} == {None}


@pytest.mark.slow
def test_the_time_of_a_choice_an_adaptation_or_an_inference_is_not_known(client, http, rows):
    spec = {"dataset_id": rows.id, "algorithm": "auto", "model": "timed-choice"}
    valid = http.post(ROOT, params={"validate_only": True}, json=spec).json()
    assert valid["expected_s"] is None
    model = client.train(rows, "ridge", model="timed-ridge").wait()
    rng = np.random.default_rng(1)
    new = client.upload({"c": rng.standard_normal((9, 12))}, {"c": rng.standard_normal(9)})
    adapted = client.adapt(model, new)
    inferred = client.infer(model, "predict", rows)
    assert adapted.info["expected_s"] is None
    assert inferred.info["expected_s"] is None
    assert adapted.expected is None
    adapted.wait()
    inferred.wait()


def test_a_refusal_for_lack_of_memory_also_says_how_long_it_would_take(client, http):
    rng = np.random.default_rng(0)
    X = {name: rng.standard_normal((3000, 2)) for name in ("a", "b")}
    y = {name: rng.standard_normal(3000) for name in X}
    dataset = client.upload(X, y, name="long and timed")
    spec = {"dataset_id": dataset.id, "algorithm": "fmtl", "model": "long", "memory_mb": 512}
    refused = http.post(ROOT, json=spec)
    assert refused.status_code == 422
    assert "it would take about " in refused.json()["detail"]


@pytest.mark.slow
def test_the_page_of_a_job_shows_the_expected_time_until_its_end(client, http, rows):
    job = client.train(rows, "gp-lvm", model="endless", **ENDLESS)
    try:
        page = http.get(f"/jobs/{job.id}").text
        assert f"Expected: {job.expected}." in page
        assert "Expected time" in page
        assert job.expected in job._repr_html_()
    finally:
        job.cancel()
    job.wait_for_end()
    assert "Expected: " not in http.get(f"/jobs/{job.id}").text


@pytest.mark.slow
def test_the_command_shows_the_expected_time(command, service, rows):
    end = command("train", rows.id, "-a", "ridge", "--url", service.url)
    assert end.returncode == 0, end.stderr
    assert "expected: about " in end.stderr
    job_id = httpx.get(f"{service.url}{ROOT}", timeout=240).json()["items"][0]["id"]
    shown = command("jobs", "show", job_id, "--url", service.url)
    assert "expected_s" in shown.stdout
