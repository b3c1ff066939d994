"""Three real databases of faces as one dataset, from upload to held-out images, over HTTP."""

import json
import sys

import httpx
import numpy as np
import pytest
from scipy.ndimage import zoom
from threadpoolctl import threadpool_limits

from algorithms.evaluation import error_rates, stratified_split
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model

pytestmark = pytest.mark.slow  # trains on images

#: Images of each person to train on, as in the protocol of the paper.
N_TRAIN = 4
PARAMS = {
    "selection": "cv", "d_grid": [4, 8, 16], "gamma_grid": [0.01, 0.1], "n_folds": 2,
}  # fmt: skip
#: Errors of chance are 39/40, 14/15 and 9/10; the benchmark's at four images are far below these.
WORST = {"orl": 0.15, "yale": 0.5, "pie": 0.4}


@pytest.fixture(scope="module")
def parts(data_file):
    """The databases with labels of their own: text in two, whole numbers in one."""
    tasks = []
    for name, file_name in (("orl", "orl"), ("yale", "yale"), ("pie", "pie10")):
        with np.load(data_file(f"{file_name}_32x32.npz"), allow_pickle=False) as file:
            X, y = file["X"].astype(np.float64), file["y"].astype(np.int64)
        if name == "orl":  # the size of the paper's images: widths differ between the tasks
            X = np.stack([zoom(x.reshape(32, 32), (28 / 32, 23 / 32), order=1) for x in X])
        labels = y if name == "yale" else np.array([f"{name} {k:02d}" for k in y])
        tasks.append(Task.from_rows(name, X.reshape(len(y), -1), y=labels))
    return stratified_split(TaskSet(tuple(tasks)), n_train=N_TRAIN, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def trained(client, parts, tmp_path_factory):
    path = tmp_path_factory.mktemp("faces") / "faces.npz"
    arrays = {f"{task.name}/X": task.X for task in parts.train}
    np.savez(path, **arrays, **{f"{task.name}/y": task.y for task in parts.train})
    dataset = client.upload(path, target_kind="classes")
    return client.train(dataset, "mtda", model="real-faces", seed=3, **PARAMS).wait()


def test_the_job_trains_the_model_of_the_offline_fit(trained, parts, tmp_path):
    algorithm = ALGORITHMS["mtda"]
    params = algorithm.Params.model_validate_json(json.dumps(PARAMS))
    offline = algorithm.fit(parts.train, params, trace=Trace(), rng=np.random.default_rng(3))
    save_model(offline.with_ignored_columns(frozenset()), tmp_path / "offline")
    served = trained.download(tmp_path / "served").read_bytes()
    assert served == (tmp_path / "offline").read_bytes()


def test_held_out_faces_are_predicted_over_http_as_offline(trained, parts, tmp_path, capsys):
    offline = load_model(trained.download(tmp_path / "model"))
    assert set(trained.tasks) == {"orl", "yale", "pie"}
    errors = {}
    for task in parts.test:
        labels = trained.predict(task.X, task=task.name)
        distances = trained.distances(task.X, task=task.name)
        assert labels.dtype.kind == ("i" if task.name == "yale" else "U")
        # each call is computed with one thread of BLAS; sums of several threads round otherwise
        with threadpool_limits(1, user_api="blas"):
            known, measured = (
                getattr(offline, method)(task.X, task=task.name)
                for method in ("predict", "distances")
            )
        np.testing.assert_array_equal(labels, known)
        assert distances.tobytes() == measured.tobytes()
        assert trained.classes(task.name) == tuple(np.unique(task.y).tolist())
        errors[task.name] = float(np.mean(labels != task.y))
    assert errors == error_rates(offline, parts.test)
    with capsys.disabled():
        sys.stdout.write(
            f"\nheld-out error, {N_TRAIN} images per person: "
            + ", ".join(f"{name} {error:.4f}" for name, error in errors.items())
            + "\n"
        )
    assert all(errors[name] <= worst for name, worst in WORST.items())


def test_a_face_in_json_has_the_same_predictions(service, trained, parts):
    task = parts.test["yale"]
    body = {"task": "yale", "inputs": task.X[:5].tolist()}
    for method in ("predict", "distances"):
        answer = httpx.post(
            f"{service.url}/v1/models/real-faces/{method}", json=body, timeout=240
        ).json()
        expected = getattr(trained, method)(task.X[:5], task="yale")
        np.testing.assert_array_equal(np.array(answer["outputs"]), expected)
