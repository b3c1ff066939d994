"""Importance of the columns of models in the service."""

import numpy as np
import pandas as pd
import pytest

from sibling import ServiceError


@pytest.fixture(scope="module")
def table(client):
    """Two tasks whose target depends on a category and a number, but not on another number."""
    rng = np.random.default_rng(0)
    size, age = rng.standard_normal((2, 60))
    colour = np.resize(["red", "blue", "green"], 60)
    y = 2 * size + np.where(colour == "red", 6.0, 0.0)
    columns = {"site": np.resize(["north", "west"], 60), "colour": colour, "size": size, "age": age}
    frame = pd.DataFrame(columns | {"y": y})
    return client.upload(frame, task_column="site", target_column="y", name="important")


@pytest.mark.parametrize(
    ("algorithm", "kind", "metric"),
    [("ridge", "coefficients", None), ("kernel-ridge", "permutation", "r2")],
)
def test_columns_have_the_importance_of_their_effect(client, table, algorithm, kind, metric):
    model = client.train(table, algorithm, model=f"important-{algorithm}").wait()
    found = model.importance()
    assert (found["kind"], found["metric"]) == (kind, metric)
    assert found["columns"] == ["colour", "size", "age"]
    assert found["shared"][2] < 0.1 * found["shared"][1]
    assert set(found["tasks"]) == {"north", "west"} == set(found["n_rows"])
    np.testing.assert_allclose(found["shared"], np.mean(list(found["tasks"].values()), axis=0))
    assert model.plot("importance").to_dict()["datasets"]["shared"] == [
        {"column": column, "importance": value}
        for column, value in zip(found["columns"], found["shared"], strict=True)
    ]


def test_the_same_seed_has_the_same_importance(client, table):
    first, second = (
        client.train(table, "kernel-ridge", model="same-importance", seed=3).wait().importance()
        for _ in range(2)
    )
    assert first | {"version": 2} == second


def test_a_model_without_predictions_has_none(client, dataset):
    model = client.train(dataset, "common-pca", model="unimportant", k=1).wait()
    with pytest.raises(ServiceError, match=r"no-importance: .*'unimportant' \(common-pca\)"):
        model.importance()
    assert "importance" not in [one["name"] for one in model.plots()]
