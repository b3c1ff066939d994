"""Classifiers over HTTP: tasks with widths and labels of their own, from upload to prediction."""

import httpx
import numpy as np
import pytest

from algorithms.registry import ALGORITHMS, load_model
from sibling import ServiceError

#: Algorithms that accept tasks with different features and return distances.
CLASSIFIERS = sorted(name for name, a in ALGORITHMS.items() if "distances" in a.Model.methods())


@pytest.fixture(scope="module")
def faces():
    """Three cameras: other widths, other persons, labels that are text."""
    rng = np.random.default_rng(0)
    X, y = {}, {}
    for camera, (width, persons) in {"door": (12, 3), "hall": (20, 4), "gate": (7, 2)}.items():
        centres = 3 * rng.normal(size=(persons, width))
        labels = np.repeat(np.arange(persons), 6)
        X[camera] = centres[labels] + rng.normal(size=(len(labels), width))
        y[camera] = np.array([f"{camera} person {label}" for label in labels])
    return X, y


@pytest.fixture(scope="module")
def faces_dataset(client, faces):
    return client.upload(*faces, name="faces")


@pytest.mark.parametrize("algorithm", CLASSIFIERS)
@pytest.mark.quick(3)
def test_predictions_over_http_equal_the_offline_ones(
    client, service, faces, faces_dataset, algorithm, tmp_path
):
    X, y = faces
    model = client.train(faces_dataset, algorithm, model=f"over-http-{algorithm}", d=1).wait()
    offline = load_model(model.download(tmp_path / "model"))
    for camera, rows in X.items():
        unseen = rows + 0.1
        labels = model.predict(unseen, task=camera)
        np.testing.assert_array_equal(labels, offline.predict(unseen, task=camera))
        assert set(labels) <= set(y[camera])
        np.testing.assert_array_equal(
            model.transform(unseen, task=camera), offline.transform(unseen, task=camera)
        )
        answer = httpx.post(
            f"{service.url}/v1/models/{model.name}/predict",
            json={"task": camera, "inputs": unseen.tolist()},
            timeout=240,
        )
        assert answer.json()["outputs"] == labels.tolist()


@pytest.mark.parametrize("algorithm", CLASSIFIERS)
@pytest.mark.quick(2)
def test_distances_over_http_equal_the_offline_ones_and_name_their_columns(
    client, service, faces, faces_dataset, algorithm, tmp_path
):
    X, y = faces
    model = client.train(faces_dataset, algorithm, model=f"distances-{algorithm}", d=1).wait()
    offline = load_model(model.download(tmp_path / "model"))
    assert model.info["classes"] == {camera: sorted(set(y[camera])) for camera in X}
    for camera, rows in X.items():
        unseen = rows + 0.1
        expected = offline.distances(unseen, task=camera)
        distances = model.distances(unseen, task=camera)
        assert distances.tobytes() == expected.tobytes()
        assert distances.shape == (len(rows), len(model.classes(camera)))
        nearest = np.array(model.classes(camera))[distances.argmin(axis=1)]
        np.testing.assert_array_equal(nearest, model.predict(unseen, task=camera))
        for path in (model.name, f"{model.name}/versions/1"):
            answer = httpx.post(
                f"{service.url}/v1/models/{path}/distances",
                json={"task": camera, "inputs": unseen.tolist()},
                timeout=240,
            ).json()
            assert answer["classes"] == list(model.classes(camera))
            assert np.array(answer["outputs"]).tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match="no task 'cellar'"):
        model.classes("cellar")


def test_whole_numbers_are_labels_and_stay_numbers(client, service):
    rng = np.random.default_rng(2)
    y = np.repeat([-3, 9, 10], 4)
    X = rng.normal(size=(12, 4)) + y[:, np.newaxis]
    dataset = client.upload({"t": X}, {"t": y}, name="codes", target_kind="classes")
    model = client.train(dataset, "lda-rt", model="codes", d=1).wait()
    assert model.classes("t") == (-3, 9, 10)
    assert model.predict(X, task="t").dtype.kind == "i"
    body = {"task": "t", "inputs": X[:1].tolist()}
    answer = httpx.post(f"{service.url}/v1/models/codes/distances", json=body, timeout=240).json()
    assert answer["classes"] == [-3, 9, 10]


def test_a_model_without_classes_has_no_distances(http, model):
    assert model.info["classes"] == {}
    assert model.classes("north") == ()
    body = {"task": "north", "inputs": [[1.0] * 5]}
    answer = http.post("/v1/models/shared/distances", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "unsupported-method")
    assert "classes" not in http.post("/v1/models/shared/transform", json=body).json()


def test_the_manifest_has_classes_and_widths(http, faces, faces_dataset):
    X, y = faces
    tasks = http.get(f"/v1/datasets/{faces_dataset.id}/manifest").json()["tasks"]
    assert {t["name"]: t["n_features"] for t in tasks} == {n: x.shape[1] for n, x in X.items()}
    assert {t["name"]: set(t["classes"]) for t in tasks} == {n: set(v) for n, v in y.items()}


def test_rows_of_another_width_are_rejected_with_the_expected_width(client, faces, faces_dataset):
    X, _ = faces
    model = client.train(faces_dataset, "mtda", model="widths", d=1).wait()
    with pytest.raises(ServiceError, match="task 'door' expects rows of 12 numbers"):
        model.predict(X["hall"], task="door")


@pytest.mark.parametrize(
    ("targets", "match"),
    [
        (
            None,
            "has no targets; mtda needs class labels; upload them as y, or name .*target_column",
        ),
        ({"door": np.arange(6.0), "hall": np.arange(6.0)}, "numeric targets"),
        ({"door": ["c"] * 6, "hall": ["a", "b"] * 3}, "'door'"),
    ],
)
def test_a_job_that_does_not_fit_its_dataset_is_rejected_with_the_task(client, targets, match):
    rows = {name: np.random.default_rng(1).normal(size=(6, 4)) for name in ("door", "hall")}
    dataset = client.upload(rows, targets, name="misfit")
    with pytest.raises(ServiceError, match=match) as caught:
        client.train(dataset, "mtda", d=1)
    assert caught.value.status == 422
