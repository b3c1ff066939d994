"""Evaluations over HTTP: rejected jobs, values, and the rows they are computed from."""

import httpx
import numpy as np
import pytest

from sibling import JobFailed, ServiceError

OPTIONS = {"splits": {"n_folds": 2, "repeats": 1}}


def test_groups_are_never_divided_and_follow_outputs(client, service) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(12, 3)) for name in ("a", "b")}
    targets = {name: X[:, 0] for name, X in rows.items()}
    groups = {"a": np.repeat(["p", "q", "r"], 4), "b": np.repeat(["p", "s", "t", "u"], 3)}
    dataset = client.upload(rows, targets, groups=groups, name="patients")
    manifest = httpx.get(f"{service.url}/v1/datasets/{dataset.id}/manifest", timeout=240).json()
    assert manifest["groups"] == ["p", "q", "r", "s", "t", "u"]
    assert all(task["has_groups"] for task in manifest["tasks"])
    job = client.train(dataset, "ridge", model="grouped", evaluate={"splits": {"n_folds": 3}})
    found = job.wait().report()["evaluation"]
    assert found["rows"] == {
        "n_rows": 24,
        "n_units": 6,
        "largest_unit": 7,
        "n_never_held_out": 0,
        "warnings": [],
        "equal_rows": None,
    }
    assert found["without_value"] == {}
    outputs = client.infer("grouped", "predict", dataset).wait()
    after = httpx.get(
        f"{service.url}/v1/datasets/{outputs.dataset_id}/manifest", timeout=240
    ).json()
    assert after["groups"] == manifest["groups"]
    assert all(task["has_groups"] for task in after["tasks"])
    named = {"splits": {"given": [{"a": [0]}]}}
    job = client.train(outputs.dataset_id, "ridge", model="named", evaluate=named)
    (warning,) = job.wait().report()["evaluation"]["rows"]["warnings"]
    assert "tests on row 0 of task 'a' and trains on row 1 of task 'a'" in warning


def test_an_evaluation_has_values_or_is_rejected_with_the_job(client) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(10, 4)) for name in ("a", "b")}
    numbers = {name: X[:, 0] for name, X in rows.items()}
    params = {"L": 1, "r": 4, "max_iter": 3}
    job = client.train(client.upload(rows, numbers), "tlvm", model="t", evaluate=OPTIONS, **params)
    found = job.wait().report()["evaluation"]
    assert set(found["mean"]) == {"reconstruction_error", "retained_variance"}
    permuted = {"a": rows["a"], "b": rows["a"][::-1]}
    with pytest.raises(ServiceError, match="'b' has different rows than task 'a'"):
        client.train(client.upload(permuted, numbers), "okl", evaluate=OPTIONS)
    one = client.upload({name: X[:1] for name, X in rows.items()}, {"a": [1.0], "b": [2.0]})
    with pytest.raises(ServiceError, match="only one row, so no row can be held out") as rejected:
        client.train(one, "ridge", evaluate=OPTIONS)
    assert rejected.value.status == 422


#: With targets in thousands, a strength that OKL cannot fit on the absolute scale is 100.
LARGE = {"scale": "absolute", "kernel": "linear"}


def warnings_of(service, model) -> list[str]:
    path = f"/v1/models/{model.name}/versions/{model.version}"
    return httpx.get(f"{service.url}{path}", timeout=240).raise_for_status().json()["warnings"]


@pytest.fixture(scope="module")
def large_targets(client):
    X = np.random.default_rng(0).normal(size=(25, 4))
    noise = np.random.default_rng(1).normal(size=(2, 25))
    rows = {"a": X, "b": X}
    return client.upload(rows, {"a": 1e3 * (X[:, 0] + noise[0]), "b": 1e3 * (X[:, 1] + noise[1])})


@pytest.mark.parametrize("method", ["grid", "halving"])
@pytest.mark.quick(1)
def test_a_search_leaves_out_candidates_that_fail(client, service, large_targets, method) -> None:
    search = {"space": {"C": [1e-6, 1e-4, 100.0]}, "method": method, "n_folds": 4}
    job = client.train(large_targets, "okl", model="kept", search=search, **LARGE)
    model = job.wait()
    found = model.report()["search"]
    assert [one["params"]["C"] for one in found["candidates"] if one["failed"]] == [100.0]
    assert found["best"] != 2
    assert "rescale" in found["candidates"][2]["failed"]
    (warning,) = [one for one in found["warnings"] if "was left out of the selection" in one]
    assert warning.startswith("1 candidate was left out of the selection because the fit failed")
    assert "(the first, C = 100: task '" in warning
    assert set(found["warnings"]) <= set(warnings_of(service, model))


@pytest.mark.slow
def test_a_search_fails_if_all_candidates_fail(client, large_targets) -> None:
    search = {"space": {"C": [50.0, 100.0]}, "n_folds": 2}
    job = client.train(large_targets, "okl", search=search, **LARGE)
    with pytest.raises(JobFailed, match=r"all 2 candidates failed \(the first, C = 50: task '"):
        job.wait()


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"space": {"gamma": [10.0, 100.0]}}, "is the smallest value that was tried: a smaller"),
        ({"space": {"gamma": [1e-6, 1e-5]}}, "is the largest value that was tried: a larger"),
        ({"space": {"gamma": [1e-6, 1e-3, 1e4]}}, None),
        ({"space": {"gamma": [1.0], "fit_intercept": [True, False]}}, None),
    ],
)
@pytest.mark.quick(1)
def test_a_search_warns_of_a_choice_at_an_end_of_the_values(
    client, service, search, message
) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(30, 8)) for name in "ab"}
    targets = {name: X[:, 0] + 0.2 * rng.normal(size=30) for name, X in rows.items()}
    job = client.train(client.upload(rows, targets), "ridge", search={**search, "n_folds": 3})
    model = job.wait()
    warnings = model.report()["search"]["warnings"]
    if message is None:
        assert warnings == []
    else:
        (warning,) = warnings
        assert warning.startswith("the chosen gamma = ")
        assert message in warning
        assert warning.endswith("to the search space of 'gamma'")
        assert warning in warnings_of(service, model)


def test_a_split_that_holds_out_a_class_is_scored(client) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(12, 4)) for name in "ab"}
    targets = {name: np.array(["no", "yes", "maybe"] * 4) for name in "ab"}
    dataset = client.upload(rows, targets)
    splits = {"given": [{"a": [0, 1]}, {name: [1, 4, 7, 10] for name in "ab"}]}
    for algorithm, options in (("ridge", {"form": "pooled"}), ("kernel-tasks", {})):
        job = client.train(dataset, algorithm, evaluate={"splits": splits}, **options)
        evaluation = job.wait().report()["evaluation"]
        assert evaluation["n_splits"] == 2
        assert evaluation["by_task"]["error_rate"]["b"] == 1.0  # 'yes' was never seen
