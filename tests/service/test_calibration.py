"""Calibrated models over HTTP: from the job to probabilities in every protocol."""

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import log_loss

import sibling
from algorithms.registry import load_model
from sibling import ServiceError

TASKS = ("north", "south")


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(0)
    X = {name: rng.normal(size=(60, 3)) for name in TASKS}
    y = {
        name: np.where(rows[:, 0] + rng.normal(size=60) > 0, "ill", "well")
        for name, rows in X.items()
    }
    return X, y


@pytest.fixture(scope="module")
def patients_dataset(client, patients):
    return client.upload(*patients, name="patients")


@pytest.fixture(scope="module")
def calibrated(client, patients_dataset):
    job = client.train(
        patients_dataset,
        "ridge",
        model="calibrated",
        calibration={"n_folds": 4},
        evaluate={"splits": {"n_folds": 3, "repeats": 1}},
    )
    return job.wait()


def test_probabilities_are_the_same_offline_and_in_every_protocol(
    client, service, patients, patients_dataset, calibrated, tmp_path
):
    X, _ = patients
    offline = load_model(calibrated.download(tmp_path / "model"))
    rows = X["north"][:5]
    expected = offline.predict_proba(rows, task="north")
    np.testing.assert_array_equal(calibrated.predict_proba(rows, task="north"), expected)
    answer = httpx.post(
        f"{service.url}/v1/models/calibrated/predict-proba",
        json={"task": "north", "inputs": rows.tolist()},
        timeout=240,
    ).json()
    assert answer["classes"] == ["ill", "well"]
    np.testing.assert_array_equal(answer["outputs"], expected)
    url = f"{service.url}/v2/models/calibrated.predict_proba"
    tensor = {"name": "rows", "datatype": "FP64", "shape": [5, 3], "data": rows.ravel().tolist()}
    v2 = httpx.post(
        f"{url}/infer", json={"inputs": [tensor], "parameters": {"task": "north"}}, timeout=240
    )
    values, labels = v2.json()["outputs"]
    np.testing.assert_array_equal(np.reshape(values["data"], values["shape"]), expected)
    assert labels["data"] == ["ill", "well"]
    declared = httpx.get(url, timeout=240).json()["outputs"]
    assert [(one["name"], one["shape"]) for one in declared] == [
        ("predict_proba", [-1, 2]),
        ("classes", [2]),
    ]
    outputs = client.infer(calibrated, "predict_proba", patients_dataset, makes_dataset=False)
    table = pq.read_table(outputs.wait().download(tmp_path / "probabilities.parquet"))
    assert table.num_rows == 120


def test_the_report_has_the_quality_on_held_out_rows(patients, calibrated):
    report = calibrated.report()
    assert {"brier", "log_loss"} <= set(report["evaluation"]["mean"])
    quality = report["calibration"]
    assert {"set_coverage", "set_size"} <= set(report["evaluation"]["mean"])
    for part in ("before", "after"):
        assert set(quality[part]["by_task"]) == set(TASKS)
        assert sum(point["n"] for point in quality[part]["reliability"]) == 120
    X, y = patients
    p = {name: calibrated.predict_proba(X[name], task=name) for name in TASKS}
    seen = np.mean([log_loss(y[name], p[name]) for name in TASKS])
    ends = report["evaluation"]["interval"]["log_loss"]
    assert ends["low"] < report["evaluation"]["mean"]["log_loss"] < ends["high"]
    listed = {plot["name"]: plot["sentence"] for plot in calibrated.plots()}
    assert {"confusion", "roc", "reliability"} <= set(listed)
    assert f"from it is {quality['after']['calibration_error']:.3g}" in listed["reliability"]
    # both on rows that the fits have not seen, by other splits
    assert report["evaluation"]["mean"]["log_loss"] == pytest.approx(
        quality["after"]["log_loss"], abs=0.1
    )
    assert seen < quality["after"]["log_loss"]


def test_an_estimator_has_the_probabilities_of_the_job(client, patients, patients_dataset):
    X, y = patients
    estimator = sibling.Ridge(target="classes", calibration=True)
    assert hasattr(estimator, "predict_proba")
    assert not hasattr(sibling.Ridge(target="classes"), "predict_proba")
    assert not hasattr(sibling.Ridge(target="numbers", calibration=True), "predict_proba")
    estimator.fit(X, y)
    remote = client.train(patients_dataset, "ridge", model="default", calibration=True).wait()
    for name, p in estimator.predict_proba(X).items():
        np.testing.assert_array_equal(p, remote.predict_proba(X[name], task=name))
    assert estimator.calibration_ == remote.report()["calibration"]
    with pytest.raises(ValueError, match="cannot be added to a model with calibration"):
        estimator.adapt(X["north"], y["north"], task="east")
    with pytest.raises(ValueError, match="calibration/n_folds"):
        sibling.Ridge(calibration={"n_folds": 1}).fit(X, y)


def test_a_calibration_that_is_not_possible_is_refused_at_submission(
    client, patients, patients_dataset, calibrated
):
    X, _ = patients
    with pytest.raises(ServiceError, match="do not predict the targets"):
        client.train(patients_dataset, "pca", calibration=True)
    with pytest.raises(ServiceError, match="n_folds"):
        client.train(patients_dataset, "ridge", calibration={"n_folds": 21})
    east = client.upload({"east": X["north"]}, {"east": ["ill", "well"] * 30}, name="east")
    with pytest.raises(ServiceError, match="has a calibration"):
        client.adapt(calibrated, east)
    plain = client.train(patients_dataset, "ridge", model="plain").wait()
    with pytest.raises(
        ServiceError, match=r"does not support predict_proba; .* train with 'calib.* are classes"
    ):
        plain.predict_proba(X["north"], task="north")


@pytest.fixture(scope="module")
def numbers(client, patients):
    X, _ = patients
    rng = np.random.default_rng(1)
    y = {name: rows[:, 0] + rng.normal(size=len(rows)) for name, rows in X.items()}
    dataset = client.upload(X, y, name="numbers")
    evaluate = {"splits": {"n_folds": 3, "repeats": 1}}
    job = client.train(dataset, "ridge", model="numbers", calibration=True, evaluate=evaluate)
    return dataset, job.wait()


def test_intervals_are_the_same_offline_and_in_every_protocol(
    client, service, patients, numbers, tmp_path
):
    X, _ = patients
    dataset, model = numbers
    offline = load_model(model.download(tmp_path / "model"))
    rows = X["south"][:4]
    tensor = {"name": "rows", "datatype": "FP64", "shape": [4, 3], "data": rows.ravel().tolist()}
    v1 = f"{service.url}/v1/models/numbers/predict-interval"
    v2 = f"{service.url}/v2/models/numbers.predict_interval"
    widths = []
    for level in (0.5, 0.8):
        expected = offline.predict_interval(rows, task="south", level=level)
        ours = model.predict_interval(rows, task="south", level=level)
        np.testing.assert_array_equal(ours, expected)
        answer = httpx.post(
            f"{v1}?level={level}", json={"task": "south", "inputs": rows.tolist()}, timeout=240
        ).json()
        np.testing.assert_array_equal(answer["outputs"], expected)
        for url, own in (
            (f"{v2}/infer", {"level": level}),
            (f"{v2}/infer?level={level}", {}),
            (f"{v2}/infer?level=0.3", {"level": level}),  # the body comes first
        ):
            body = {"inputs": [tensor], "parameters": {"task": "south", **own}}
            (found,) = httpx.post(url, json=body, timeout=240).json()["outputs"]
            np.testing.assert_array_equal(np.reshape(found["data"], found["shape"]), expected)
        outputs = client.infer(model, "predict_interval", dataset, level=level).wait()
        table = pq.read_table(outputs.download(tmp_path / f"{level}.parquet")).to_pandas()
        ends = np.stack(table[table["task"] == "south"]["outputs"].iloc[:4])
        np.testing.assert_array_equal(ends, expected)
        widths.append(np.diff(expected))
    assert np.all(widths[0] < widths[1])
    assert httpx.get(v2, timeout=240).json()["outputs"][0]["shape"] == [-1, 2]


def test_a_level_is_checked_in_every_protocol(client, service, patients, numbers):
    X, _ = patients
    dataset, model = numbers
    body = {"task": "south", "inputs": X["south"][:1].tolist()}
    url = f"{service.url}/v1/models/numbers"
    assert (
        httpx.post(f"{url}/predict-interval?level=1.5", json=body, timeout=240).status_code == 422
    )
    refused = httpx.post(f"{url}/predict?level=0.9", json=body, timeout=240)
    assert refused.status_code == 422
    assert "predict takes no level" in refused.text
    tensor = {"name": "rows", "datatype": "FP64", "shape": [1, 3], "data": [0.0, 0.0, 0.0]}
    for level in (0, 1, "0.9", True):
        v2 = {"inputs": [tensor], "parameters": {"task": "south", "level": level}}
        answer = httpx.post(
            f"{service.url}/v2/models/numbers.predict_interval/infer", json=v2, timeout=240
        )
        assert answer.status_code == 400
        assert "between 0 and 1 as level" in answer.text
    with pytest.raises(ServiceError, match="predict takes no level"):
        client.infer(model, "predict", dataset, level=0.9)
    with pytest.raises(ServiceError, match=r"too few rows .* use a level up to 0\.98"):
        model.predict_interval(X["south"], task="south", level=0.99)


def test_the_report_says_up_to_which_level_a_task_uses_its_own_rows(numbers):
    report = numbers[1].report()
    south = report["calibration"]["levels"]["south"]
    assert south["n_held_out"] == 60
    assert south["own_rows_to"] == pytest.approx(1 - 2 / 60)
    assert south["largest"] == pytest.approx(60 / 61)
    assert report["calibration"]["after"] is None
    assert 0.8 < report["evaluation"]["mean"]["coverage"] < 1.0
    assert 2.0 < report["evaluation"]["mean"]["interval_width"] < 5.0


def test_estimators_have_intervals_and_sets_of_a_level(patients):
    X, y = patients
    regression = sibling.Ridge(target="numbers", calibration=True)
    assert hasattr(regression, "predict_interval")
    assert not hasattr(regression, "predict_set")
    regression.fit(X["north"], X["north"][:, 0] + np.random.default_rng(2).normal(size=60))
    assert regression.predict_interval(X["north"], level=0.5).shape == (60, 2)
    classes = sibling.Ridge(calibration=True).fit(X, y)
    assert not hasattr(classes, "predict_interval")
    small, large = (classes.predict_set(X, level=a)["south"].sum() for a in (0.5, 0.95))
    assert small < large <= 120


@pytest.mark.slow  # its parts have quick tests
def test_an_automatic_choice_is_calibrated_too(client, patients, patients_dataset):
    model = client.train(
        patients_dataset,
        "auto",
        model="chosen",
        calibration=True,
        algorithms=["constant", "ridge"],
        splits={"n_folds": 2, "repeats": 1},
    ).wait()
    assert model.predict_proba(patients[0]["north"], task="north").shape == (60, 2)
    report = model.report()
    assert report["choice"]["chosen"]["algorithm"] == "ensemble"
    assert report["calibration"]["after"]["calibration_error"] < 0.2
