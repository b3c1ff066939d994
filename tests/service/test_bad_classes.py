"""Errors in tasks with classes, and how the service reports them."""

import httpx
import numpy as np
import pytest

from algorithms.registry import ALGORITHMS
from sibling import JobFailed, ServiceError

CLASSIFIERS = [
    pytest.param(name, marks=() if name in ("mtda", "lda-null") else pytest.mark.slow)
    for name, algorithm in sorted(ALGORITHMS.items())
    if "distances" in algorithm.Model.methods()
]
RNG = np.random.default_rng(0)
TWO = ["a", "b"] * 3


def rows(n=6, width=4):
    return RNG.normal(size=(n, width))


@pytest.fixture(scope="module")
def upload(client):
    """``upload(targets, **options)`` uploads tasks with different numbers of columns."""

    def send(targets, **options):
        X = {task: rows(width=3 + i) for i, task in enumerate(targets)}
        y = {task: labels for task, labels in targets.items() if labels is not None}
        return client.upload(X, y, name="bad classes", **options)

    return send


@pytest.fixture(scope="module")
def pair(client, upload):
    """A model of two tasks with three and four columns."""
    return client.train(upload({"door": TWO, "hall": TWO}), "mtda", model="pair", d=1).wait()


def send_table(service, text, **query):
    return httpx.post(
        f"{service.url}/v1/datasets",
        params={"name": "t", "target_column": "label", **query},
        content=text.encode(),
        headers={"Content-Type": "text/csv"},
        timeout=240,
    )


# --- jobs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", CLASSIFIERS)
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["other"] * 6, "task 'hall' has rows of one class only"),
        (None, "task 'hall' has no targets; {} needs class labels"),
        (np.arange(6) % 2, "task 'hall' has numeric targets.*target_kind=classes"),
    ],
)
def test_a_task_with_fewer_than_two_classes_is_rejected_by_name(
    client, upload, algorithm, labels, words
):
    dataset = upload({"door": TWO, "hall": labels})
    with pytest.raises(ServiceError, match=words.format(algorithm)) as caught:
        client.train(dataset, algorithm)
    assert (caught.value.status, caught.value.code) == (422, "invalid-data")
    assert caught.value.errors[0]["task"] == "hall"


@pytest.mark.parametrize("algorithm", CLASSIFIERS)
def test_classes_of_one_sample_can_be_trained_but_not_used_for_selection(client, upload, algorithm):
    dataset = upload({"door": list("abcdef"), "hall": list("uvwxyz")})
    model = client.train(dataset, algorithm, model=f"single-{algorithm}", d=2).wait()
    assert model.distances(rows(width=4), task="hall").shape == (6, 6)
    with pytest.raises(ServiceError, match=r"one row per class.*use selection 'given'") as caught:
        client.train(dataset, algorithm, selection="cv")
    assert (caught.value.status, caught.value.code) == (422, "invalid-data")
    assert caught.value.errors[0]["task"] == "door"


@pytest.mark.parametrize("algorithm", CLASSIFIERS)
def test_more_dimensions_than_any_rank_are_lowered_with_a_warning(client, upload, algorithm):
    dataset = upload({"door": TWO, "hall": TWO})
    model = client.train(dataset, algorithm, model=f"capped-{algorithm}", d=100_000).wait()
    warning = next(w for w in model.info["warnings"] if "d was lowered for 2 of 2 tasks" in w)
    width = model.transform(rows(width=3), task="door").shape[1]
    assert f"'door': {width} instead of 100000" in warning
    assert width <= 3


def test_numbers_that_only_the_fit_can_reject_fail_the_job_with_the_task(client):
    dataset = client.upload({"door": rows() * 1e200}, {"door": TWO}, name="huge")
    with pytest.raises(JobFailed, match=r"'door' has entries up to .*rescale the data"):
        client.train(dataset, "mtda").wait()


# --- uploads -------------------------------------------------------------------------------------

TABLE = "task,x,label\ndoor,1,{}\ndoor,2,{}\nhall,4,{}\nhall,5,{}\n"


@pytest.mark.parametrize(
    "cells", [("", "a", "b", "c"), ("a", "b", "c", " "), ("", "1.5", "2", "3"), ("1", "2", "3", "")]
)
@pytest.mark.parametrize("query", [{}, {"target_kind": "classes"}])
def test_rows_with_an_empty_label_are_left_out_with_a_note(service, cells, query):
    response = send_table(service, TABLE.format(*cells), **query)
    assert response.status_code in (200, 201, 202), response.text
    url = f"{service.url}/v1/datasets/{response.json()['id']}"
    dataset = httpx.get(url, params={"wait": 60}, timeout=240).json()
    assert dataset["n_samples"] == 3
    (note,) = dataset["warnings"]
    assert "1 row has no value in the target column 'label'" in note


@pytest.mark.parametrize(
    ("cells", "task", "row"),
    [(("a", "b", "7", "c"), "hall", 2), (("7", "8", "a", "9"), "hall", 2)],
)
def test_text_and_numbers_mixed_as_labels_name_the_task(service, cells, task, row):
    response = send_table(service, TABLE.format(*cells))
    assert response.status_code == 422
    (issue,) = response.json()["errors"]
    assert (issue["code"], issue["task"], issue["row"]) == ("mixed-labels", task, row)
    assert f"task '{task}'" in issue["detail"]
    assert "target_kind=classes" in issue["detail"]
    assert send_table(service, TABLE.format(*cells), target_kind="classes").status_code == 201


@pytest.mark.parametrize("blank", ["", "  "])
def test_an_empty_label_in_arrays_names_task_and_row(upload, blank):
    with pytest.raises(ServiceError, match="task 'hall': row 2: the target is empty") as caught:
        upload({"door": TWO, "hall": ["a", "b", blank, "a", "b", "a"]})
    (issue,) = caught.value.errors
    assert (issue["code"], issue["task"], issue["row"]) == ("empty-cell", "hall", 2)


def test_labels_of_numbers_that_are_not_whole_name_task_and_row(upload):
    targets = {"door": [1.0, 2, 1, 2, 1, 2], "hall": [1, 2, 1, 2.5, 1, 2]}
    with pytest.raises(ServiceError, match=r"task 'hall': row 3: 2\.5 cannot be a class label"):
        upload(targets, target_kind="classes")


# --- predictions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "distances", "transform"])
def test_rows_of_the_wrong_width_and_unknown_tasks_are_rejected(pair, method):
    call = getattr(pair, method)
    with pytest.raises(ServiceError, match="task 'door' expects rows of 3 numbers") as caught:
        call(rows(width=4), task="door")
    assert caught.value.errors[0]["task"] == "door"
    with pytest.raises(ServiceError, match="unknown task 'cellar'; known tasks: 'door', 'hall'"):
        call(rows(width=3), task="cellar")


@pytest.mark.parametrize("method", ["predict", "distances"])
def test_a_call_without_a_task_is_rejected(service, pair, method):
    address = f"{service.url}/v1/models/{pair.name}/{method}"
    response = httpx.post(address, json={"inputs": [[0.0] * 3]}, timeout=240)
    assert (response.status_code, response.json()["code"]) == (422, "invalid-request")
    assert response.json()["errors"][0]["pointer"] == "/task"


@pytest.mark.parametrize("method", ["predict", "distances"])
@pytest.mark.parametrize("size", [1e308, 1e160])
def test_rows_whose_distances_overflow_are_rejected_with_their_location(pair, method, size):
    X = rows(n=3, width=3)
    X[1] = size
    with pytest.raises(ServiceError, match="task 'door', row 1 has values so large") as caught:
        getattr(pair, method)(X, task="door")
    assert (caught.value.status, caught.value.code) == (422, "invalid-data")
    assert (caught.value.errors[0]["task"], caught.value.errors[0]["row"]) == ("door", 1)
