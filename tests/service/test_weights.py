"""Weights of rows and classes through the service: upload, job, scores, and the same bits."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_squared_error

from algorithms.registry import load_model, save_model
from sibling import JobFailed, LogisticRegression, RemoteEstimator, Ridge, ServiceError

#: Few rows are fitted best at an end of the grid.
pytestmark = pytest.mark.filterwarnings("ignore::sibling.FitWarning")

RNG = np.random.default_rng(8)
NAMES = ("north", "south")
ROWS = {name: RNG.standard_normal((40, 3)) for name in NAMES}
NUMBERS = {name: X @ [1.0, -1.0, 0.5] + 0.5 * RNG.standard_normal(40) for name, X in ROWS.items()}
LABELS = {name: np.where(y > 1, "ill", "well") for name, y in NUMBERS.items()}
WEIGHTS = {name: RNG.integers(0, 4, 40) for name in NAMES}


def file_of(model, path):
    model.download(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("estimator", "targets"),
    [
        (Ridge(), NUMBERS),
        (LogisticRegression(class_weight="balanced", calibration=True), LABELS),
        (LogisticRegression(class_weight={"ill": 4}), LABELS),
    ],
    ids=("numbers", "balanced classes", "one class"),
)
@pytest.mark.quick(1)
def test_job_estimator_and_remote_estimator_have_the_same_bits(
    client, tmp_path, estimator, targets
):
    algorithm = estimator._algorithm.name
    dataset = client.upload(ROWS, targets, sample_weight=WEIGHTS)
    options = {"class_weight": getattr(estimator, "class_weight", None)}
    model = client.train(
        dataset, algorithm, model="weights", calibration=estimator.calibration, **options
    ).wait()
    estimator.fit(ROWS, targets, sample_weight=WEIGHTS)
    estimator.save(tmp_path / "own")
    assert file_of(model, tmp_path / "job") == (tmp_path / "own").read_bytes()
    remote = RemoteEstimator(estimator, client=client, model="weights-remote")
    remote.fit(ROWS, targets, sample_weight=WEIGHTS)
    assert file_of(remote.model_, tmp_path / "remote") == (tmp_path / "own").read_bytes()


def test_the_weight_column_of_a_table_is_that_of_arrays(client, tmp_path):
    table = pd.concat(
        pd.DataFrame(ROWS[name], columns=["a", "b", "c"]).assign(
            task=name, y=NUMBERS[name], count=WEIGHTS[name]
        )
        for name in NAMES
    )
    by_table = client.upload(table, target_column="y", weight_column="count")
    frames = {name: pd.DataFrame(X, columns=["a", "b", "c"]) for name, X in ROWS.items()}
    by_frames = client.upload(frames, NUMBERS, sample_weight=WEIGHTS)
    path, files = tmp_path / "model", []
    for dataset in (by_table, by_frames):
        client.train(dataset, "ridge", model="weight-column").wait().download(path)
        # that of a table has the name of the column that it ignores
        save_model(load_model(path).with_ignored_columns(None), path)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    shown = client.preview(by_table)["tasks"][0]["weights"]
    expected = WEIGHTS["north"]
    assert shown == {"min": 0, "max": 3, "n_zero": int((expected == 0).sum())}


def test_an_evaluation_has_weighted_scores(client):
    dataset = client.upload(ROWS, NUMBERS, sample_weight=WEIGHTS)
    rows = list(range(0, 40, 4))
    splits = {"given": [{"north": rows, "south": rows}]}
    model = client.train(
        dataset, "ridge", model="weights-evaluated", evaluate={"splits": splits}
    ).wait()
    report = model.report()["evaluation"]
    rest = np.setdiff1d(np.arange(40), rows)
    trained = Ridge().fit(
        {name: X[rest] for name, X in ROWS.items()},
        {name: y[rest] for name, y in NUMBERS.items()},
        sample_weight={name: w[rest] for name, w in WEIGHTS.items()},
    )
    pairs = {name: trained.predict({name: ROWS[name][rows]})[name] for name in NAMES}
    truth = np.concatenate([NUMBERS[name][rows] for name in NAMES])
    expected = mean_squared_error(
        truth,
        np.concatenate([pairs[name] for name in NAMES]),
        sample_weight=np.concatenate([WEIGHTS[name][rows] for name in NAMES]),
    )
    found = report["over_rows"]["rmse"]
    assert found == pytest.approx(np.sqrt(expected), rel=1e-9)


@pytest.mark.slow
def test_a_comparison_weighs_the_classes_of_every_method(client):
    dataset = client.upload(ROWS, LABELS)
    model = client.train(
        dataset,
        "mixed-model",
        model="weights-compared",
        class_weight="balanced",
        compare={"splits": {"n_folds": 2, "repeats": 1}},
    ).wait()
    report = model.report()["comparison"]
    assert {one["algorithm"] for one in report["methods"]} >= {"mixed-model", "ridge"}


def test_what_uses_no_weights_is_refused_with_what_does(client):
    dataset = client.upload(ROWS, LABELS, sample_weight=WEIGHTS)
    message = "classes have weights, which nearest-neighbours does not use; use an"
    with pytest.raises(ServiceError, match=f"{message} algorithm that does .*ridge"):
        client.train(dataset, "nearest-neighbours", model="weights-refused")
    plain = client.upload(ROWS, LABELS)
    with pytest.raises(ServiceError, match=message):
        client.train(plain, "nearest-neighbours", model="weights-refused", class_weight="balanced")
    numbers = client.upload(ROWS, NUMBERS)
    with pytest.raises(ServiceError, match="has no classes, which class weights need"):
        client.train(numbers, "ridge", model="weights-refused", class_weight="balanced")
    with pytest.raises(ServiceError, match="class_weight"):
        client.train(plain, "ridge", model="weights-refused", class_weight="heavy")
    with pytest.raises(JobFailed, match="names the class 'dead', which no task has"):
        client.train(plain, "ridge", model="weights-refused", class_weight={"dead": 2.0}).wait()


def test_a_new_task_is_adapted_with_its_weights(client, tmp_path):
    model = client.train(client.upload(ROWS, NUMBERS), "ridge", model="weights-adapted").wait()
    new = {"east": ROWS["north"]}
    dataset = client.upload(
        new, {"east": NUMBERS["north"]}, sample_weight={"east": WEIGHTS["north"]}
    )
    adapted = client.adapt(model, dataset).wait()
    local = Ridge().fit(ROWS, NUMBERS)
    local.adapt(ROWS["north"], NUMBERS["north"], task="east", sample_weight=WEIGHTS["north"])
    local.save(tmp_path / "own")
    assert file_of(adapted, tmp_path / "job") == (tmp_path / "own").read_bytes()


@pytest.mark.slow
def test_an_automatic_choice_compares_what_uses_weights(client):
    dataset = client.upload(ROWS, LABELS, sample_weight=WEIGHTS)
    model = client.train(
        dataset,
        "auto",
        model="weights-auto",
        algorithms=["ridge", "constant", "nearest-neighbours"],
        splits={"n_folds": 2, "repeats": 1},
    ).wait()
    rows = model.report()["choice"]["leaderboard"]
    assert {row["algorithm"] for row in rows} == {"ridge", "constant"}
    assert "have weights, which nearest-neighbours does not use" in json.dumps(model.report())
