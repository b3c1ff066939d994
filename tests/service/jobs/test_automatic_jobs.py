"""Jobs that choose their algorithm."""

import httpx
import numpy as np
import pytest

from service.jobs.queue import child_store, store
from service.jobs.studies.child_jobs import ChildJob
from service.storage.job_states import JobState
from service.ui.views.words import GroupWords
from sibling import ServiceError
from tests.service.stored import job_of
from tests.waiting import wait_for

#: Few splits and fast methods.
FAST = {
    "algorithms": ["constant", "ridge", "mean-regularised"],
    "splits": {"n_folds": 3, "repeats": 1},
}


@pytest.fixture
def dataset(client):
    rng = np.random.default_rng(0)
    w = rng.normal(size=5)
    rows = {name: rng.normal(size=(15, 5)) for name in ("a", "b", "c", "d")}
    targets = {name: X @ w + 0.3 * rng.normal(size=15) for name, X in rows.items()}
    return client.upload(rows, targets, name="related")


def test_a_weighted_mean_of_the_best_methods_is_trained_on_all_rows(client, dataset) -> None:
    job = client.train(dataset, "auto", model="chosen", seed=3, **FAST)
    model = job.wait()
    choice = model.report()["choice"]
    assert job.info["algorithm"] == "auto"
    assert not job.info["child_jobs"]
    assert job.info["result"]["leaderboard"] == choice["leaderboard"]
    assert model.info["algorithm"] == choice["chosen"]["algorithm"] == "ensemble"
    assert sum(row["weight"] for row in choice["leaderboard"]) == pytest.approx(1.0)
    assert choice["leaderboard"][-1]["algorithm"] == "constant"
    assert model.info["lineage"]["dataset_id"] == dataset.id
    assert len(choice["estimate"]["chosen"]) == 3
    assert set(choice["tasks"]) == {"a", "b", "c", "d"}
    low, high = model.predict_interval(np.zeros((2, 5)), task="a", level=0.8).T
    predicted = model.predict(np.zeros((2, 5)), task="a")
    assert ((low < predicted) & (predicted < high)).all()
    assert {"predictions", "residuals"} <= {plot["name"] for plot in model.plots()}
    assert model.report()["predictions"]["n_rows"] == 60
    assert model.info["stop_reason"] is None  # that of the loop of the weights
    assert {"fit ridge pooled", "folds of ridge pooled"} <= model.history()["stop_reasons"].keys()
    again = client.train(dataset, "auto", model="again", seed=3, **FAST).wait()
    assert again.report()["choice"]["estimate"] == choice["estimate"]
    rows = np.random.default_rng(1).normal(size=(6, 5))
    adapted = client.adapt(model, client.upload({"new": rows}, {"new": rows[:, 0]})).wait()
    assert adapted.tasks == (*model.tasks, "new")
    assert np.isfinite(adapted.predict(rows, task="new")).all()


@pytest.mark.slow
def test_one_method_is_the_model_if_it_is_asked_for(client, service, dataset) -> None:
    model = client.train(dataset, "auto", model="single", single=True, **FAST).wait()
    choice = model.report()["choice"]
    (row,) = [row for row in choice["leaderboard"] if row["weight"]]
    assert model.info["algorithm"] == choice["chosen"]["algorithm"] == row["algorithm"]
    assert model.info["lineage"]["params"] == row["params"]
    assert "100 %" in httpx.get(f"{service.url}/models/single/1").text


@pytest.mark.slow
def test_a_choice_for_classes_has_the_plots_of_held_out_rows(client) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(30, 3)) for name in ("a", "b")}
    labels = {name: np.where(X[:, 0] > 0, "yes", "no") for name, X in rows.items()}
    options = {**FAST, "algorithms": ["nearest-neighbours"]}
    model = client.train(client.upload(rows, labels), "auto", model="labels", **options).wait()
    assert {"confusion", "roc"} <= {plot["name"] for plot in model.plots()}
    stored = model.report()["predictions"]
    assert stored["n_rows"] == 60
    right = [
        a == b
        for own in stored["tasks"].values()
        for a, b in zip(own["true"], own["predicted"], strict=True)
    ]
    cells = model.plot("confusion").to_dict()["datasets"]["cells"]
    assert sum(c["rows"] for c in cells if c["true"] == c["predicted"]) == sum(right)
    assert sum(c["rows"] for c in cells) == 60


@pytest.mark.slow
@pytest.mark.parametrize("target", ["numbers", "rare"])
def test_each_group_has_a_score_to_compare_and_to_watch_by(client, service, target) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(60, 3)) for name in ("a", "b", "c")}
    values = {name: X[:, 0] + 0.3 * rng.normal(size=60) for name, X in rows.items()}
    if target == "rare":  # whose deciding metric is AUC, while models are watched by wrong answers
        values = {name: np.where(y > 1.7, "yes", "no") for name, y in values.items()}
    options = {**FAST, "algorithms": ["logistic-regression"]} if target == "rare" else FAST
    data, name = client.upload(rows, values), f"watched-{target}"
    model = client.train(data, "auto", model=name, **options).wait()
    choice = model.report()["choice"]
    assert choice["metric"] == {"numbers": "rmse", "rare": "auc"}[target]
    loss, by_task = {"numbers": "rmse", "rare": "error_rate"}[target], choice["estimate"]["by_task"]
    assert by_task.keys() == {choice["metric"], loss}
    own = by_task[choice["metric"]].values()
    assert choice["estimate"]["value"] == pytest.approx(np.mean(list(own)), rel=0.05)
    client.train(data, "auto", model=name, seed=1, **options).wait()
    page = httpx.get(f"{service.url}/compare?models={name}/1,{name}/2").text
    assert "left out for checking, best of 3 groups" in page
    assert page.count('data-key="task-') == 3
    model.set_alias("production")
    monitor = client.set_monitor(f"{name}@production")
    model = client.model(f"{name}@production")
    model.predict(rows["a"], task="a", row_ids="r")
    wait_for(lambda: monitor.refresh()["n_rows"] == 60)
    truth = [{"row_id": f"r-{i}", "target": y} for i, y in enumerate(values["a"].tolist())]
    monitor.feedback(truth)
    (state,) = monitor.report()["tasks"]
    assert state["error"]["metric"] == loss
    assert state["error"]["promised"] == pytest.approx(by_task[loss]["a"])


@pytest.mark.slow
def test_a_learning_curve_is_in_the_report_the_plots_and_on_the_page(
    client, service, dataset
) -> None:
    model = client.train(dataset, "auto", model="curve", curve=True, **FAST).wait()
    choice = model.report()["choice"]
    assert [point["share"] for point in choice["curve"]["points"]] == [0.25, 0.5, 0.75, 1.0]
    assert "learning-curve" in {plot["name"] for plot in model.plots()}
    starts = ("Learning together", "From about", "The number of rows per task")
    (sentence,) = [one for one in choice["sentences"][4:] if one.startswith(starts)]
    page = httpx.get(f"{service.url}/models/curve/1").text
    assert "Scores by training rows per group" in page
    said = GroupWords.of(None).said(sentence)
    assert said.split("(")[0].strip() in page
    assert "The best method of each kind" in page
    assert "Weight in the model" in page


@pytest.mark.slow
def test_a_method_without_parameters_to_select_is_trained(client) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(12, 2)) for name in ("a", "b")}
    targets = {name: 5 * i + rng.normal(size=12) for i, name in enumerate(rows)}
    options = FAST | {"algorithms": ["mixed-model"]}
    model = client.train(client.upload(rows, targets), "auto", model="plain", **options).wait()
    (row,) = model.report()["choice"]["leaderboard"]
    assert (row["algorithm"], row["weight"]) == ("mixed-model", 1.0)


@pytest.mark.parametrize(
    ("values", "pointer", "detail"),
    [
        ({"params": {"budget_s": -1}}, "/params/budget_s", "greater than 0"),
        ({"params": {"budget": 1}}, "/params/budget", "did you mean 'budget_s'"),
        ({"params": {"algorithms": ["rigde"]}}, "/params/algorithms/0", "did you mean 'ridge'"),
        ({"params": {"per_task": True}}, "/params/per_task", "leave it out"),
        ({"params": {"n_inner_folds": 3}}, "/params/n_inner_folds", "splits={'n_folds'"),
        ({"params": {"metric": "auc"}}, "/params/metric", "does not apply"),
        ({"compare": True}, "/compare", "cannot be combined with the algorithm 'auto'"),
        ({"algorithm": "atuo"}, "/algorithm", "did you mean 'auto'"),
    ],
)
def test_an_invalid_specification_is_refused_with_the_field(
    client, dataset, values, pointer, detail
) -> None:
    spec = {"algorithm": "auto", "params": {}, "model": "none", **values}
    with pytest.raises(ServiceError) as caught:
        client.submit(dataset, spec.pop("algorithm"), spec.pop("params"), **spec)
    assert caught.value.errors[0]["pointer"] == pointer
    assert detail in str(caught.value)


def test_data_without_targets_needs_a_named_algorithm(client) -> None:
    rows = {"a": np.random.default_rng(0).normal(size=(6, 2))}
    with pytest.raises(ServiceError, match="no targets"):
        client.train(client.upload(rows), "auto")


@pytest.mark.slow
def test_progress_has_the_best_score_so_far_of_each_kind_of_method(client, dataset) -> None:
    options = {**FAST, "splits": {"n_folds": 10, "repeats": 20}}
    job = client.train(dataset, "auto", model="watched", **options)
    while not (race := (job.refresh(wait_s=0.2).progress or {}).get("race")):
        assert not job.info["is_final"]
    assert race["metric"] == "rmse"
    naive = race["best"][-1]
    assert naive.pop("role") in ("single_task", "pooled")  # whichever is ahead at that time
    assert naive == {
        "kind": "trivial",
        "algorithm": "constant",
        "variant": "",
        "value": pytest.approx(2.0, rel=1.0),
    }
    job.cancel()
    job.wait_for_end()
    assert any(event["data"].get("race") for event in job.events() if event["kind"] == "progress")


@pytest.mark.sql
def test_a_choice_can_be_ended_with_the_best_so_far(client, service, dataset) -> None:
    options = {"splits": {"n_folds": 5, "repeats": 8}, "budget_s": 3600.0}
    job = client.train(dataset, "auto", model="kept", **options)
    race = None
    while race is None or race["n_scored"] < 2:
        race = (job.refresh(wait_s=0.2).progress or {}).get("race")
        assert not job.info["is_final"]
    assert job.info["can_finish"]
    assert job.progress["remaining_s"] <= options["budget_s"]
    page = httpx.get(f"{service.url}/jobs/{job.id}").text
    assert f"/v1/jobs/{job.id}:finish" in page
    assert job.finish().info["is_finishing"] or job.info["is_final"]
    model = job.wait(timeout_s=60)
    choice = model.report()["choice"]
    assert race["n_scored"] <= len(choice["leaderboard"]) < race["n_methods"]
    assert choice["together_or_apart"]["verdict"] == "none"
    assert any("ended" in one["reason"] for one in choice["left_out"])
    assert [e["kind"] for e in job.events()].count("finish") == 1
    with pytest.raises(ServiceError) as late:
        job.finish()
    assert (late.value.status, late.value.code) == (409, "wrong-state")


@pytest.mark.sql
def test_only_a_race_can_be_ended_with_the_best_so_far(client, dataset) -> None:
    job = client.train(dataset, "fmtl", model="plain", C=1.0)
    with pytest.raises(ServiceError) as caught:
        job.finish()
    assert (caught.value.status, caught.value.code) == (409, "wrong-state")
    assert not job.info["can_finish"]
    job.wait()


@pytest.mark.sql
def test_a_choice_can_be_cancelled(client, dataset) -> None:
    job = client.train(dataset, "auto", model="stopped", splits={"n_folds": 10, "repeats": 10})
    job.cancel()
    assert client.job(job.id).info["state"] in {"cancelling", "cancelled"}


def test_a_child_job_that_may_fail_does_not_fail_its_parent(database, new_job, read_job) -> None:
    new_job("ada")
    plan = {"kind": "score", "of": "left_out_tasks", "may_fail": True, "indices": [0]}
    with database.write() as session:
        job = job_of(algorithm="ridge", plan={"kind": "study"})
        row = child_store.create_with_child_jobs(
            session, job, [ChildJob("pca", {}, {**plan, "position": 0})]
        )
        (child,) = child_store.child_jobs_of(session, row.id)
        child_id, job_id = child.id, row.id
    with database.write() as session:
        assert store.submit(session, [store.get(session, child_id)])
        assert store.claim(session, child_id, 1, "w")
        error = {"code": "out-of-memory", "detail": "too large", "attempt": 1}
        here = (session, child_id, 1, JobState.RUNNING)
        assert store.move(*here, JobState.FAILED, error=error)
    with database.write() as session:
        waiting = child_store.lock_waiting(session, job_id)
        children = child_store.child_jobs_of(session, job_id)
        assert child_store.all_succeeded(children)
        (result,) = child_store.child_results(session, job_id)
        child_store.update_parent(session, waiting, children)
    assert (result["failed"], result["plan"]["of"]) == ("too large", "left_out_tasks")
    assert read_job(job_id).state == JobState.QUEUED
