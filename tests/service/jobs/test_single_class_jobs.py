"""Jobs on tasks of which some have rows of a single class, from the upload to the answer."""

import numpy as np
import pytest

from algorithms.registry import ALGORITHMS
from benchmarks.harness.problems import rare_events
from sibling import ServiceError

#: Few splits and fast methods.
FAST = {
    "algorithms": ["constant", "mixed-model"],
    "splits": {"n_folds": 2, "repeats": 1},
}
HOSPITALS = rare_events(np.random.default_rng(1), n_tasks=12)
WITHOUT = HOSPITALS.tasks.names[0]


def upload(client, tasks, name):
    return client.upload(
        {task.name: task.X for task in tasks}, {task.name: task.y for task in tasks}, name=name
    )


@pytest.fixture(scope="module")
def hospitals(client):
    return upload(client, HOSPITALS.tasks, "hospitals")


@pytest.fixture(scope="module")
def unknown(client):
    """Two hospitals whose class no other has, among the others."""
    tasks = [*HOSPITALS.tasks.tasks[:4], *HOSPITALS.tasks.tasks[6:10]]
    labels = {task.name: task.y for task in tasks} | {
        task.name: ["unlike"] * task.n_samples for task in tasks[:2]
    }
    return client.upload({task.name: task.X for task in tasks}, labels, name="unlike hospitals")


def test_no_algorithm_is_closed_by_tasks_without_events(client, hospitals) -> None:
    preview = client.preview(hospitals)
    suitability = {entry["algorithm"]: entry for entry in preview["algorithms"]}
    classifiers = {
        name for name, one in ALGORITHMS.items() if "predict" in one.methods_for("classes")
    }
    closed = {name for name in classifiers if not suitability[name]["can_train"]}
    assert closed == {"okl", "convex-okl"}  # they need the same rows in every task


@pytest.mark.slow  # a calibrated race
def test_a_calibrated_choice_has_probabilities_there(client, hospitals) -> None:
    job = client.train(hospitals, "auto", model="hospitals", calibration={"n_folds": 2}, **FAST)
    (warning,) = [text for text in job.info["warnings"] if "single class" in text]
    assert "6 of 12 tasks ('hospital-01', 'hospital-02'" in warning
    model = job.wait()
    p = np.asarray(model.predict_proba(HOSPITALS.new.tasks[0].X, task=WITHOUT))
    assert p.shape == (len(HOSPITALS.new.tasks[0].X), 2)
    assert ((p > 0) & (p < 1)).all()
    assert set(model.predict(HOSPITALS.new.tasks[0].X, task=WITHOUT)) <= {"event", "none"}


def test_a_task_without_events_is_added_to_a_model(client) -> None:
    known = upload(client, HOSPITALS.tasks.tasks[6:10], "known hospitals")
    new = upload(client, HOSPITALS.tasks.tasks[:1], "new hospital")
    job = client.train(known, "logistic-regression", model="growing", selection="given")
    grown = client.adapt(job.wait(), new).wait()
    assert set(grown.predict(HOSPITALS.new.tasks[0].X, task=WITHOUT)) == {"none"}
    assert np.isfinite(grown.decision_function(HOSPITALS.new.tasks[0].X, task=WITHOUT)).all()


@pytest.mark.parametrize(
    ("algorithm", "options", "pointer"),
    [
        ("logistic-regression", {}, None),
        ("fmtl", {"calibration": {}}, "/calibration"),
        ("auto", {"calibration": {}, **FAST}, "/calibration"),
    ],
)
def test_classes_that_no_other_task_has_are_refused_at_submission(
    client, unknown, algorithm, options, pointer
) -> None:
    with pytest.raises(ServiceError) as caught:
        client.train(unknown, algorithm, **options)
    assert (caught.value.status, caught.value.code) == (422, "invalid-data")
    (error,) = caught.value.errors
    assert error["task"] == "hospital-01"
    assert error.get("pointer") == pointer
    assert "2 of 8 tasks ('hospital-01', 'hospital-02')" in str(caught.value)
