"""Jobs with child jobs: their states, progress, cancellation and results."""

import httpx
import numpy as np
import pytest

from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import fold_split
from service.jobs.queue import admission, child_store, queries, store
from service.jobs.studies.child_jobs import ChildJob
from service.storage.job_states import JobState
from service.storage.ordered_pages import PageRequest
from sibling import Client, JobFailed, ServiceError
from tests.service.stored import job_of

LOST = store.AttemptFailure("worker-lost", "gone")


@pytest.fixture
def parent(database, new_job):
    """Return a function that creates a job with three child jobs."""

    def create(owner="ada") -> tuple[str, list[str]]:
        new_job(owner)  # which creates the dataset
        with database.write() as session:
            job = job_of(owner=owner, priority=5, plan={"kind": "search"})
            children = [
                ChildJob("pca", {}, {"kind": "score", "position": position})
                for position in range(3)
            ]
            row = child_store.create_with_child_jobs(session, job, children)
            return row.id, [child.id for child in child_store.child_jobs_of(session, row.id)]

    return create


@pytest.fixture
def end(database):
    """Return a function that moves a queued job to a final state."""

    def run(job_id, state=JobState.SUCCEEDED, **values):
        with database.write() as session:
            job = store.get(session, job_id)
            attempt = job.attempt + 1
            assert store.submit(session, [job])
            assert store.claim(session, job_id, attempt, "w")
            here = (session, job_id, attempt, JobState.RUNNING)
            assert store.move(*here, state, **values)

    return run


@pytest.fixture
def update(database, read_job):
    def run(job_id):
        with database.write() as session:
            for waiting in child_store.child_progress(session):
                job = store.get(session, waiting)
                child_store.update_parent(session, job, child_store.child_jobs_of(session, waiting))
        return read_job(job_id)

    return run


@pytest.mark.sql
def test_a_parent_is_queued_once_all_child_jobs_have_succeeded(parent, end, update, database):
    job_id, children = parent()
    assert update(job_id).state == "waiting"
    for n_done, child in enumerate(reversed(children), start=1):
        end(child, result={"child": children.index(child)})
        row = update(job_id)
        assert (row.state == "queued") == (n_done == 3)
    with database.read() as session:
        assert [r["child"] for r in child_store.child_results(session, job_id)] == [0, 1, 2]
        assert child_store.count_child_jobs(session, [job_id]) == {job_id: {"succeeded": 3}}


@pytest.mark.sql
def test_child_progress_changes_with_every_change_of_a_child_job_and_nothing_else(
    parent, end, database
):
    job_id, children = parent()
    parent()  # another one, which does not change

    def progress():
        with database.read() as session:
            return child_store.child_progress(session)

    def submit():
        with database.write() as session:
            store.submit(session, [store.get(session, children[0])])

    def claim():
        with database.write() as session:
            store.claim(session, children[0], 1, "w")

    def heartbeat(fraction):
        with database.write() as session:
            store.record_heartbeat(session, children[0], 1, "w", {"fraction": fraction})

    def cancel():
        with database.write() as session:
            store.request_cancel(session, store.get(session, children[1]))

    before = progress()
    assert len(before) == 2
    assert progress() == before
    for change in (
        submit,
        claim,
        lambda: heartbeat(0.1),
        lambda: heartbeat(0.2),
        lambda: end(children[2]),
        cancel,
    ):
        change()
        after = progress()
        assert {i for i in before if before[i] != after[i]} == {job_id}
        before = after


@pytest.mark.sql
def test_the_progress_of_a_parent_is_that_of_its_child_jobs(parent, end, update, database):
    job_id, children = parent()
    end(children[0])
    with database.write() as session:
        store.submit(session, [store.get(session, children[1])])
        store.claim(session, children[1], 1, "w")
        store.record_heartbeat(session, children[1], 1, "w", {"fraction": 0.5})
    row = update(job_id)
    # one and a half of three child jobs, and the training of the parent after them
    assert row.progress["fraction"] == pytest.approx(1.5 / 4)
    assert row.progress["iteration"] == 1
    with database.read() as session:
        kinds = [e.kind for e in queries.events_after(session, job_id, 0, 100)]
    assert kinds == ["state", "progress"]


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.TIMED_OUT])
@pytest.mark.sql
def test_a_failed_child_job_fails_its_parent_with_its_cause(parent, end, update, read_job, state):
    job_id, children = parent()
    end(children[1], state, error={"code": "diverged", "detail": "too steep", "attempt": 1})
    row = update(job_id)
    assert row.state == "failed"
    assert row.error["code"] == "diverged"
    assert row.error["detail"] == f"child job 2 of 3 ({children[1]}): too steep"
    assert [read_job(child).state for child in children] == ["cancelled", state, "cancelled"]


@pytest.mark.sql
def test_a_cancel_of_the_parent_cancels_all_child_jobs(parent, end, update, database, read_job):
    job_id, children = parent()
    end(children[0])
    with database.write() as session:
        store.submit(session, [store.get(session, children[1])])
        store.claim(session, children[1], 1, "w")
    with database.write() as session:
        store.request_cancel(session, store.get(session, job_id))
    assert update(job_id).state == "waiting"  # until the running child job has stopped
    counts = {"succeeded": 1, "cancelling": 1, "cancelled": 1}  # as the list shows them
    with database.read() as session:
        assert child_store.count_child_jobs(session, [job_id]) == {job_id: counts}
    with database.write() as session:
        store.move(session, children[1], 1, JobState.RUNNING, JobState.CANCELLED)
    assert update(job_id).state == "cancelled"
    assert [read_job(child).state for child in children] == ["succeeded", "cancelled", "cancelled"]


@pytest.mark.sql
def test_a_cancelled_child_job_cancels_its_parent(parent, end, update, database):
    job_id, children = parent()
    with database.write() as session:
        store.request_cancel(session, store.get(session, children[0]))
    for child in children[1:]:
        end(child)
    assert update(job_id).state == "cancelled"


@pytest.mark.sql
def test_child_jobs_are_as_old_as_their_parent_and_count_once_in_the_queue(parent, database):
    job_id, children = parent()
    with database.write() as session:
        assert queries.count_waiting(session, "ada") == 2
        assert {job.id for job in admission.next_queued(session, 3)} == set(children)
        where, wanted = queries.JobFilter(parent_id=job_id), PageRequest("-created_at", None, 9)
        listed = queries.list_page(session, "ada", where, wanted).rows
        assert {job.id for (job,) in listed} == set(children)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.normal(size=(8, 3)))[0]
    made = {}
    for name in ("a", "b", "c"):
        made[name] = rng.normal(size=(30, 3)) @ basis.T * 3 + rng.normal(size=(30, 8)) * 0.3
    return made


def test_a_search_trains_with_the_best_parameters(client, rows):
    job = client.train(
        client.upload(rows),
        "pca",
        model="searched",
        search={"space": {"k": [1, 2, 3]}, "n_folds": 3, "metric": "retained_variance"},
    )
    model = job.wait()
    report = model.report()["search"]
    assert (report["metric"], report["larger_is_better"]) == ("retained_variance", True)
    assert [c["params"]["k"] for c in report["candidates"]] == [1, 2, 3]
    assert report["best"] == 2
    assert model.info["lineage"]["params"]["k"] == 3
    assert job.info["child_jobs"] == {"succeeded": 3}
    # computed by hand: the same folds, one model each, the sums of squares of all folds
    tasks = TaskSet(tuple(Task.from_rows(name, X) for name, X in rows.items()))
    values = []
    for fold in range(3):
        split = fold_split(tasks, fold=fold, n_folds=3, seed=0)
        algorithm = ALGORITHMS["pca"]
        fitted = algorithm.fit(
            split.train, algorithm.Params(k=2), trace=Trace(), rng=np.random.default_rng(0)
        )
        pairs = [METRICS["retained_variance"].observe(fitted, task) for task in split.test]
        values.append([[np.sum((X - image) ** 2), np.sum(X**2)] for X, image in pairs])
    by_task = report["candidates"][1]["by_task"]
    lost, total = np.sum(values, axis=0).T
    np.testing.assert_allclose([by_task[n] for n in rows], 1 - lost / total, rtol=1e-12)


@pytest.mark.sql
def test_child_jobs_are_listed_under_their_parent_only(client, http, rows):
    job = client.train(client.upload(rows), "pca", search={"space": {"k": [1, 2]}, "n_folds": 2})
    job.wait()
    listed = http.get("/v1/jobs").json()["items"]
    assert job.id in [j["id"] for j in listed]
    assert not [j for j in listed if j["parent_id"]]
    children = http.get("/v1/jobs", params={"parent_id": job.id}).json()["items"]
    assert {child["parent_id"] for child in children} == {job.id}
    assert all(c["result"]["scores"][0]["by_task"]["reconstruction_error"] for c in children)
    with pytest.raises(ServiceError, match="without search, comparison"):
        client.train(client.upload(rows), "pca", k=1).wait().report()


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"space": {}}, "at least 1"),
        ({"space": {"k": []}}, "'k' has an empty list"),
        ({"space": {"nothing": [1]}}, "nothing"),
        ({"space": {"k": [0]}}, "greater than or equal to 1"),
        ({"space": {"k": [1], "n_folds": [2] * 2}}, "n_folds"),
        ({"space": {"k": list(range(1, 1002))}}, "1001 combinations"),
        ({"space": {"k": [1]}, "metric": "beauty"}, "the metric 'beauty' does not apply"),
        ({"space": {"k": [1]}, "n_folds": 1}, "greater than or equal to 2"),
        ({"space": {"k": [1, 9]}}, "k"),
        ({"space": {"k": {"low": 1, "high": 3}}}, "'k' is a range"),
        ({"space": {"k": [1]}, "n_candidates": 2}, "'n_candidates' needs the method"),
        ({"space": {"k": [1]}, "method": "guess"}, "'grid', 'random' or 'halving'"),
    ],
)
def test_an_invalid_search_is_rejected(client, rows, search, message):
    before = len(list(client.jobs))
    with pytest.raises(ServiceError, match=message) as caught:
        client.train(client.upload(rows), "pca", search=search)
    assert 400 <= caught.value.status < 500
    assert len(list(client.jobs)) == before


@pytest.mark.slow
def test_halving_scores_the_better_candidates_on_more_splits(client, rows):
    job = client.train(
        client.upload(rows),
        "pca",
        model="halved",
        search={"space": {"k": [1, 2, 3, 4, 5, 6]}, "method": "halving", "factor": 2, "n_folds": 4},
    )
    model = job.wait()
    report = model.report()["search"]
    # 6 on two folds, 3 of them on four
    assert sorted(c["n_splits"] for c in report["candidates"]) == [2, 2, 2, 4, 4, 4]
    assert report["candidates"][report["best"]]["n_splits"] == 4
    assert job.info["child_jobs"] == {"succeeded": 6 + 3}
    # the best candidate has the same scores in a search of its own
    k = model.info["lineage"]["params"]["k"]
    alone = client.train(
        client.upload(rows), "pca", model="alone", search={"space": {"k": [k]}, "n_folds": 4}
    )
    again = alone.wait().report()["search"]["candidates"][0]
    assert again["by_task"] == report["candidates"][report["best"]]["by_task"]
    # progress never decreases
    fractions = [e["data"]["fraction"] for e in job.events() if e["kind"] == "progress"]
    assert fractions == sorted(fractions)


@pytest.mark.slow
def test_a_random_search_draws_the_same_candidates_for_the_same_seed(client, rows):
    space = {"gamma": {"low": 1e-3, "high": 1.0, "scale": "log"}, "d": [1, 2]}
    labels = {name: np.array(["x", "y", "z"] * 10) for name in rows}
    labelled = client.upload(rows, labels, name="labelled")

    def candidates(seed):
        search = {"space": space, "method": "random", "n_candidates": 4, "n_folds": 2}
        job = client.train(labelled, "mtda", model="drawn", seed=seed, search=search)
        return [c["params"] for c in job.wait().report()["search"]["candidates"]]

    first = candidates(1)
    assert len(first) == 4
    assert all(1e-3 <= params["gamma"] <= 1 for params in first)
    assert first == candidates(1) != candidates(2)


def test_an_evaluation_scores_held_out_rows(client, rows):
    targets = {name: X @ np.arange(8.0) for name, X in rows.items()}
    job = client.train(
        client.upload(rows, targets, name="numbers"),
        "ridge",
        model="evaluated",
        evaluate={"splits": {"scheme": "holdout", "n_splits": 3, "test_size": 0.2}},
    )
    model = job.wait()
    found = model.report()["evaluation"]
    assert found["n_splits"] == 3
    assert found["by_task"].keys() == found["mean"].keys() == found["over_rows"].keys()
    assert set(found["by_task"]["explained_variance"]) == set(rows)
    # noiseless targets, linear in the rows
    assert found["mean"]["explained_variance"] == pytest.approx(1, abs=1e-3)
    assert found["over_rows"]["explained_variance"] == pytest.approx(1, abs=1e-3)
    assert job.info["child_jobs"] == {"succeeded": 3}


@pytest.mark.slow  # starts many child jobs
@pytest.mark.sql
def test_a_search_is_cancelled_with_all_its_child_jobs(start_service, wait_until):
    rng = np.random.default_rng(0)
    rows = {f"task {t}": rng.normal(size=(40, 24)) for t in range(60)}
    service = start_service()
    with Client(service.url) as client:
        space = {"k": [1, 2, 3, 4]}
        job = client.train(
            client.upload(rows),
            "rmt-pca",
            selection="cv",
            n_folds=10,
            starts="many",
            search={"space": space, "n_folds": 10},
        )
        wait_until(lambda: "running" in job.refresh().info["child_jobs"])
        assert job.cancel().state == "cancelling"
        with pytest.raises(JobFailed, match="cancelled"):
            job.wait()
        assert job.info["child_jobs"] == {"cancelled": 4}
        assert httpx.get(f"{service.url}/v1/models", timeout=240).json()["items"] == []


def test_a_comparison_reports_whether_learning_together_helps(client):
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(10, 2)))[0]
    rows = {
        f"t{i}": 2 * rng.normal(size=(12, 2)) @ basis.T + rng.normal(size=(12, 10))
        for i in range(6)
    }
    job = client.train(client.upload(rows), "rmt-pca", model="compared", compare=True, k=2)
    model = job.wait()
    found = model.report()["comparison"]
    assert found["verdict"] == "helps"
    assert found["sentences"][0].startswith("Learning together helps")
    assert [m["algorithm"] for m in found["methods"]] == [
        "rmt-pca",
        "pca",
        "common-pca",
        "constant",
    ]
    assert found["best"]["algorithm"] in {"rmt-pca", "common-pca"}
    assert found["sharing"]["apart"] == {
        "algorithm": "pca",
        "role": "single_task",
        "variant": "",
    }
    assert set(found["tasks"]) == set(rows)
    # the scored parameters are the trained ones
    assert model.info["lineage"]["params"]["selection"] == "cv"
    assert job.info["child_jobs"] == {"succeeded": 3 * 10 + 1}  # one for the trivial baseline


@pytest.mark.parametrize(
    ("algorithm", "compare", "message"),
    [
        ("pca", True, "pca cannot be compared"),
        ("rmt-pca", {"metric": "auc"}, "'auc' does not apply"),
        ("rmt-pca", {"splits": {"scheme": "kfold", "n_folds": 1}}, "greater than or equal to 2"),
        ("rmt-pca", {"splits": {"scheme": "given"}}, "given"),
        ("rmt-pca", {"splits": {"scheme": "given", "given": [{"nobody": [0]}]}}, "nobody"),
        ("rmt-pca", {"splits": {"scheme": "given", "given": [{"a": [30]}]}}, "row 30"),
        ("rmt-pca", {"beauty": 1}, "beauty"),
    ],
)
def test_an_invalid_comparison_is_rejected(client, rows, algorithm, compare, message):
    before = len(list(client.jobs))
    with pytest.raises(ServiceError, match=message) as caught:
        client.train(client.upload(rows), algorithm, compare=compare)
    assert 400 <= caught.value.status < 500
    assert len(list(client.jobs)) == before


@pytest.mark.parametrize("kind", ["compare", "evaluate"])
def test_given_splits_need_no_scheme(client, rows, kind):
    given = [{"a": [0, 1], "b": [2, 3]}, {"c": [4, 5]}]
    job = client.train(
        client.upload(rows), "rmt-pca", model="named", k=2, lam=1.0, selection="given",
        **{kind: {"splits": {"given": given}}},
    )  # fmt: skip
    report = job.wait().report()
    found = report["comparison" if kind == "compare" else "evaluation"]
    assert found["n_splits"] == 2
    assert found["splits"] == {"scheme": "given"}


@pytest.mark.parametrize(
    ("study", "pointer", "message"),
    [
        ({"evaluate": {"splits": {"given": [{"a": [0, 0, 1]}]}}}, "/evaluate", "more than once"),
        ({"evaluate": {"splits": {"given": [{}]}}}, "/evaluate", "no split in 'given'"),
        (
            {"compare": {"splits": {"scheme": "holdout", "given": [{"a": [0]}]}}},
            "/compare",
            "the scheme is 'holdout'",
        ),
        ({"search": {"space": {"foo": [1]}}}, "/search/space/foo", "foo"),
        ({"search": {"space": {"k": [0]}}}, "/search/space/k", "greater than or equal"),
        (
            {"search": {"space": {"k": [1]}, "metric": "auc"}},
            "/search/metric",
            "the metric 'auc' does not apply",
        ),
        ({"search": {"space": {"k": [1]}}, "params": {"k": 2}}, "/search/space/k", "remove it"),
    ],
)
def test_an_error_has_the_place_of_the_invalid_option(http, client, rows, study, pointer, message):
    spec = {"dataset_id": client.upload(rows).id, "algorithm": "rmt-pca", "model": "m", **study}
    response = http.post("/v1/jobs", json=spec)
    assert response.status_code == 422
    assert message in response.json()["detail"]
    assert response.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    "study", [{"search": {"space": {"C": [1.0, 2.0]}}}, {"compare": True}, {"evaluate": True}]
)
def test_studies_of_a_precomputed_kernel_are_rejected(http, client, study):
    K = {"a": np.eye(6)[:3], "b": np.eye(6)[3:]}
    dataset = client.upload(K, {"a": np.arange(3.0), "b": np.arange(3.0)})
    spec = {"dataset_id": dataset.id, "algorithm": "fmtl", "model": "m", **study}
    response = http.post("/v1/jobs", json=spec | {"params": {"kernel": "precomputed"}})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/params/kernel"
    assert "no row can be held out" in response.json()["detail"]


@pytest.mark.slow  # a comparison of many splits
def test_a_baseline_that_fails_on_a_split_is_left_out_with_the_reason(client):
    rng = np.random.default_rng(0)
    rows = {"tiny": rng.normal(size=(2, 3)), "large": rng.normal(size=(12, 3))}
    labels = {"tiny": np.array(["p", "q"]), "large": np.array(["p", "q"] * 6)}
    job = client.train(client.upload(rows, labels), "mtda", model="tiny", compare=True)
    found = job.wait().report()["comparison"]
    assert found["left_out"]
    assert all("tiny" in entry["reason"] for entry in found["left_out"])
    left = {entry["baseline"] for entry in found["left_out"]}
    assert not left & {method["algorithm"] for method in found["methods"]}
