"""The option of jobs and estimators that says which equal rows are held out together."""

import httpx
import numpy as np
import pytest

from sibling import RemoteEstimator, Ridge

pytestmark = pytest.mark.slow  # jobs of an option that has quick tests

rng = np.random.default_rng(0)
#: Two numbers for each of 24 tasks with 6 rows: yes or no, and a constant of the task.
ROWS = {
    f"t{t:02d}": np.stack([rng.permutation(6) % 2, np.full(6, rng.normal())], axis=1)
    for t in range(24)
}
TARGETS = {name: X.sum(axis=1) + rng.normal(size=6) for name, X in ROWS.items()}


@pytest.fixture(scope="module")
def dataset(client):
    return client.upload(ROWS, TARGETS, name="counties")


@pytest.mark.parametrize(
    ("ties", "n_units", "words"),
    [
        ("auto", 144, "144 are taken for different samples"),
        ("values", 48, "all of them are held out together"),
        ("none", 144, "none of them are held out together"),
    ],
)
def test_a_report_says_what_was_done_about_equal_rows(
    client, dataset, ties, n_units, words
) -> None:
    options = {"splits": {"n_folds": 3}}
    job = client.train(dataset, "ridge", model="counties", ties=ties, evaluate=options)
    found = job.wait().report()["evaluation"]
    assert found["rows"]["n_units"] == n_units
    assert words in found["rows"]["equal_rows"]
    assert found["rows"]["equal_rows"] in found["sentences"]


def test_an_automatic_choice_says_it_too(client, dataset) -> None:
    job = client.train(
        dataset, "auto", model="chosen", ties="values", algorithms=["constant", "ridge"]
    )
    choice = job.wait().report()["choice"]
    assert choice["rows"]["n_units"] == 48
    assert choice["rows"]["equal_rows"] in choice["sentences"]


def test_an_unknown_value_is_refused_at_its_place(dataset, service) -> None:
    spec = {"dataset_id": dataset.id, "algorithm": "ridge", "model": "m", "ties": "some"}
    response = httpx.post(f"{service.url}/v1/jobs", json=spec, timeout=60)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == "/ties"
    with pytest.raises(ValueError, match="'ties' is 'some'"):
        Ridge(ties="some").fit(ROWS, TARGETS)


def test_estimators_and_jobs_agree(client) -> None:
    gammas = {}
    for ties in ("auto", "values"):
        spec = Ridge(form="task", ties=ties)
        here = spec.fit(ROWS, TARGETS)
        there = RemoteEstimator(spec, client=client, model="agreed").fit(ROWS, TARGETS)
        for name, X in ROWS.items():
            np.testing.assert_array_equal(here.predict(X, tasks=name), there.predict(X, tasks=name))
        gammas[ties] = here.fit_info_["gamma"]
    assert gammas["auto"] != gammas["values"]
