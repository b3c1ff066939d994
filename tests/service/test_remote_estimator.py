"""Estimators that the service trains and applies."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from sibling import (
    FMTL,
    MTFL,
    Auto,
    Client,
    CommonPCA,
    LogisticRegression,
    RemoteEstimator,
    Ridge,
)

RNG = np.random.default_rng(3)
TASKS = np.array(["a", "b", "c"] * 12)
X = RNG.standard_normal((36, 4))
Y = X @ np.array([1.0, 2.0, 0.0, -1.0]) + 0.1 * RNG.standard_normal(36)


def test_a_remote_fit_equals_a_local_one_bit_for_bit(client):
    local = MTFL(gamma=0.5).fit(X, Y, tasks=TASKS)
    remote = RemoteEstimator(MTFL(gamma=0.5), client=client, model="remote-mtfl")
    remote.fit(X, Y, tasks=TASKS)
    assert remote.tasks_ == local.tasks_
    assert remote.model_.info["lineage"]["params"]["gamma"] == 0.5
    expected = local.predict(X, tasks=TASKS)
    np.testing.assert_array_equal(remote.predict(X, tasks=TASKS), expected)
    assert remote.score(X, Y, tasks=TASKS) == local.score(X, Y, tasks=TASKS)
    by_task = remote.predict({"b": X[TASKS == "b"]})
    np.testing.assert_array_equal(by_task["b"], expected[TASKS == "b"])
    with pytest.raises(ValueError, match="several tasks"):
        remote.predict(X)


def test_classes_keep_their_type(client):
    labels = np.where(Y > 0, 7, 3)
    estimator = LogisticRegression(selection="given", calibration={"threshold": {np.int64(7): 3}})
    remote = RemoteEstimator(
        estimator,
        client=client,
        model="remote-classes",
    ).fit(X, labels, tasks=TASKS)
    assert is_classifier(remote)
    local = clone(estimator).fit(X, labels, tasks=TASKS)
    p = remote.predict_proba(X, tasks=TASKS)
    np.testing.assert_array_equal(p, local.predict_proba(X, tasks=TASKS))
    predicted = remote.predict(X, tasks=TASKS)
    assert predicted.dtype == labels.dtype
    np.testing.assert_array_equal(predicted, local.predict(X, tasks=TASKS))


def test_a_remote_estimator_stands_in_a_pipeline(client):
    remote = RemoteEstimator(MTFL(gamma=0.5), client=client, model="remote-pipeline")
    with sklearn.config_context(enable_metadata_routing=True):
        fitted = make_pipeline(StandardScaler(), remote).fit(X, Y, tasks=TASKS)
        predicted = fitted.predict(X, tasks=TASKS)
    scaled = StandardScaler().fit_transform(X)
    expected = MTFL(gamma=0.5).fit(scaled, Y, tasks=TASKS).predict(scaled, tasks=TASKS)
    np.testing.assert_array_equal(predicted, expected)


@pytest.mark.slow
def test_a_choice_has_the_report_of_its_job_wherever_it_is_made(client):
    spec = Auto(algorithms=["ridge", "mean-regularised"], calibration=True)
    local = clone(spec).fit(X, Y, tasks=TASKS)
    remote = RemoteEstimator(spec, client=client, model="remote-auto").fit(X, Y, tasks=TASKS)
    np.testing.assert_array_equal(remote.predict(X, tasks=TASKS), local.predict(X, tasks=TASKS))
    assert remote.verdict_ == local.verdict_ == "helps"
    assert remote.report_ == remote.model_.report()
    assert known(local.report_) == known(remote.report_)


def known(value):
    """Return a report as JSON has it, without nulls, which the API adds, and processor times."""
    if isinstance(value, dict):
        timed = ("fit_s", "predict_s", "total_s")
        kept = {key: known(part) for key, part in value.items() if key not in timed}
        return {key: part for key, part in kept.items() if part is not None}
    return [known(part) for part in value] if isinstance(value, list | tuple) else value


@pytest.mark.slow  # its parts have quick tests
def test_a_grid_search_over_a_remote_pipeline_finds_what_a_local_one_does(client):
    space = {"gamma": [0.01, 10.0], "standardise": ["none"]}
    folds = list(StratifiedKFold(2).split(X, TASKS))
    remote = RemoteEstimator(MTFL(selection="given"), client=client, model="remote-search")
    found = []
    for last, prefix in ((remote.estimator, "last__"), (remote, "last__estimator__")):
        pipeline = Pipeline([("scale", StandardScaler()), ("last", last)])
        grid = {f"{prefix}{name}": values for name, values in space.items()}
        search = GridSearchCV(pipeline, grid, cv=folds, error_score="raise")
        with sklearn.config_context(enable_metadata_routing=True):
            search.fit(X, Y, tasks=TASKS)
            predicted = search.best_estimator_.predict(X, tasks=TASKS)
        best = {name.removeprefix(prefix): value for name, value in search.best_params_.items()}
        found.append((search.cv_results_["mean_test_score"].tolist(), best, predicted.tolist()))
    assert found[0] == found[1]
    assert found[0][0][0] != found[0][0][1]
    assert search.best_estimator_["last"].model_.name == "remote-search"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the checks look for the warnings that matter
@pytest.mark.parametrize(
    "estimator", [Ridge(selection="given", target="numbers"), CommonPCA()], ids=repr
)
def test_it_passes_the_checks_of_scikit_learn(estimator, service, monkeypatch):
    monkeypatch.setenv("SIBLING_URL", service.url)
    remote = RemoteEstimator(estimator, model="remote-checks")
    results = check_estimator(remote, on_skip=None, on_fail=None)
    assert len(results) > 40
    failed = {one["check_name"]: one["exception"] for one in results if one["status"] == "failed"}
    expected = {f"check_sample_weight_equivalence_on_{form}_data" for form in ("dense", "sparse")}
    if not estimator._algorithm.needs.weights:
        # fit declares weights whatever the estimator inside, which refuses them
        expected = {name for name in failed if "sample_weight" in name}
    assert failed.keys() == expected, failed


def test_a_pickled_model_has_no_secrets_and_takes_the_key_of_its_process(client, monkeypatch):
    remote = RemoteEstimator(MTFL(gamma=0.5), client=client, model="remote-pickled")
    expected = remote.fit(X, Y, tasks=TASKS).predict(X, tasks=TASKS)
    copied = pickle.loads(pickle.dumps(remote))
    np.testing.assert_array_equal(copied.predict(X, tasks=TASKS), expected)
    with Client("http://user:hush@127.0.0.1:1", api_key="sib_hush") as secret:
        text = pickle.dumps(secret)
    assert b"hush" not in text
    monkeypatch.setenv("SIBLING_API_KEY", "sib_other")
    headers = pickle.loads(text)._http._transport._client.headers
    assert headers["Authorization"] == "Bearer sib_other"


def test_copies_share_the_client_and_parameters_are_nested():
    with Client() as client:
        remote = RemoteEstimator(FMTL(), client=client)
        copied = clone(remote).set_params(estimator__max_iter=7)
        assert copied.client is client
    assert copied.estimator.max_iter == 7
    assert remote.estimator.max_iter != 7
    assert not hasattr(remote, "model_")
    assert hasattr(RemoteEstimator(MTFL()), "predict")
    assert not hasattr(RemoteEstimator(Ridge()), "transform")


def test_what_does_not_fit_is_reported_before_anything_is_sent():
    unreachable = RemoteEstimator(MTFL(), client=Client("http://127.0.0.1:1"))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        unreachable.fit(X, Y[:-1], tasks=TASKS)
    with pytest.raises(ValueError, match="gamma"):
        unreachable.set_params(estimator__gamma=-1).fit(X, Y, tasks=TASKS)
    with pytest.raises(ValueError, match="k = 9 is more than n_features = 4"):
        unreachable.set_params(estimator=CommonPCA(k=9)).fit(X, tasks=TASKS)
