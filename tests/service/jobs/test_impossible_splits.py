"""Splits that leave nothing to select parameters or methods by are refused with the job."""

import numpy as np
import pytest


def groups_of(client, tmp_path, n_groups):
    """Upload two tasks whose rows belong to the same few groups."""
    rng = np.random.default_rng(n_groups)
    lines = ["school,year,x,y"]
    for school in "ab":
        for row in range(12):
            x = rng.normal()
            lines.append(f"{school},{row % n_groups},{x:.4f},{x + rng.normal():.4f}")
    path = tmp_path / "years.csv"
    path.write_text("\n".join(lines))
    options = {"task_column": "school", "target_column": "y", "group_column": "year"}
    return client.upload(path, **options)


@pytest.mark.parametrize(
    "job",
    [
        {"algorithm": "auto", "params": {"algorithms": ["ridge", "constant"]}},
        {"algorithm": "ridge", "evaluate": {}},
        {"algorithm": "mtfl", "compare": {}},
    ],
    ids=lambda job: job["algorithm"],
)
def test_two_groups_cannot_be_held_out_twice(client, http, tmp_path, job) -> None:
    spec = {"dataset_id": groups_of(client, tmp_path, 2).id, "model": "years", **job}
    answer = http.post("/v1/jobs", json=spec)
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid-data"
    spec["dataset_id"] = groups_of(client, tmp_path, 3).id
    assert http.post("/v1/jobs?validate_only=true", json=spec).status_code == 200


def test_parameters_that_are_given_need_only_one_split(client, http, tmp_path) -> None:
    spec = {
        "dataset_id": groups_of(client, tmp_path, 2).id,
        "algorithm": "ridge",
        "params": {"selection": "given"},
        "model": "years",
        "evaluate": {},
    }
    assert http.post("/v1/jobs?validate_only=true", json=spec).status_code == 200


@pytest.mark.parametrize("labels", [["no", "yes", "no"], None])
def test_rows_of_which_one_can_be_held_out_have_no_automatic_choice(client, http, labels) -> None:
    n = 2 if labels is None else 3
    rng = np.random.default_rng(n)
    rows = {name: rng.normal(size=(n, 2)) for name in "ab"}
    targets = {name: X[:, 0] if labels is None else np.array(labels) for name, X in rows.items()}
    data = client.upload(rows, targets)
    answer = http.post(
        "/v1/jobs", json={"dataset_id": data.id, "algorithm": "auto", "model": "few"}
    )
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid-data"
