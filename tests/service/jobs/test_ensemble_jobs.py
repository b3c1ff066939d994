"""Jobs of the weighted ensemble: like those of any other algorithm."""

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.slow  # races

#: Keeps the test short: slower methods are left out.
BUDGET_S = 3.0


@pytest.fixture
def shops() -> pd.DataFrame:
    """Return a table of shops with a number, a category, and targets of both kinds."""
    rng = np.random.default_rng(0)
    price, day = rng.uniform(1, 3, 42), rng.choice(["weekday", "weekend"], 42)
    sales = 50 - 9 * price + 6 * (day == "weekend") + rng.normal(size=42)
    busy = np.where(sales > 33, "yes", "no")
    shop = np.repeat(["a", "b", "c"], 14)
    return pd.DataFrame({"shop": shop, "price": price, "day": day, "sales": sales, "busy": busy})


def test_numbers_have_intervals_without_a_calibration(client, shops) -> None:
    table = shops.drop(columns="busy")
    data = client.upload(table, task_column="shop", target_column="sales")
    model = client.train(data, "ensemble", model="shop-sales", budget_s=BUDGET_S).wait()
    rows = pd.DataFrame({"price": [2.0, 1.0], "day": ["weekend", "weekday"]})
    predicted = model.predict(rows, task="a")
    low, high = model.predict_interval(rows, task="a", level=0.8).T
    assert ((low < predicted) & (predicted < high)).all()
    race = model.report()["race"]
    assert race["expected"]["metric"] == "rmse"
    assert sum(one["weight"] or 0.0 for one in race["contenders"]) == pytest.approx(1.0)
    assert all(one["seconds"] > 0 for one in race["contenders"] if one["weight"])
    assert "folds of constant per task" in model.history()["stop_reasons"]


def test_classes_have_probabilities_without_a_calibration(client, shops) -> None:
    table = shops.drop(columns="sales")
    data = client.upload(table, task_column="shop", target_column="busy")
    job = client.train(data, "ensemble", model="shop-busy", budget_s=BUDGET_S, single=True)
    p = job.wait().predict_proba(pd.DataFrame({"price": [1.0], "day": ["weekend"]}), task="b")
    assert p.shape == (1, 2)
    assert p[0, 1] > 0.5
