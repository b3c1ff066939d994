"""Real tables with categories, dates and gaps, as they are published, from upload to prediction."""

import csv
import importlib.resources
import json

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from sibling import Client

pytestmark = pytest.mark.slow  # tables of other packages


def packaged(package, *parts):
    return importlib.resources.files(package).joinpath(*parts)


PENGUINS = packaged("palmerpenguins", "data", "penguins.csv")
PENGUINS_RAW = packaged("palmerpenguins", "data", "penguins-raw.csv")
CARS = packaged("vega_datasets", "_data", "cars.json")
BARLEY = packaged("vega_datasets", "_data", "barley.json")


@pytest.fixture(scope="module")
def client(service):
    with Client(service.url) as made:
        yield made


def records_of(file):
    """Return the rows of a file as records, with None for missing values."""
    if file.name.endswith(".json"):
        return json.loads(file.read_text())
    rows = list(csv.DictReader(file.read_text().splitlines()))
    return [{name: _cell(text) for name, text in row.items()} for row in rows]


def _cell(text):
    try:
        return None if text == "NA" else float(text)
    except ValueError:
        return text


def known(records, target):
    return [record for record in records if record[target] is not None]


def own(record, *removed):
    return {name: value for name, value in record.items() if name not in removed}


def score(model, records, *, task_column, target):
    """Return R² of the predictions of raw records, over all tasks."""
    truth, found = [], []
    for task in sorted({record[task_column] for record in records}):
        rows = [r for r in records if r[task_column] == task]
        values = model.predict(rows, task=task)  # with the columns that it does not use
        found += values.tolist()
        truth += [r[target] for r in rows]
    error = np.subtract(truth, found)
    return 1 - (error**2).mean() / np.var(truth)


@pytest.mark.parametrize(
    ("file", "task_column", "target", "n_left_out", "at_least"),
    [
        (PENGUINS, "species", "body_mass_g", 2, 0.85),
        (CARS, "Origin", "Miles_per_Gallon", 8, 0.75),
        (BARLEY, "site", "yield", 0, 0.70),
    ],
)
@pytest.mark.parametrize("algorithm", ["mtfl", "ridge", "kernel-mean"])
def test_a_published_table_is_trained_and_called_as_it_is(
    client, tmp_path, file, task_column, target, n_left_out, at_least, algorithm
):
    records = records_of(file)
    path = tmp_path / file.name
    path.write_bytes(file.read_bytes())
    dataset = client.upload(path, task_column=task_column, target_column=target)
    assert dataset.info["n_samples"] == len(records) - n_left_out
    model = client.train(dataset, algorithm, model=f"public-{algorithm}").wait()
    complete = known(records, target)
    found = score(model, complete, task_column=task_column, target=target)
    assert found > at_least
    # the order of the fields does not matter, and neither does what is unknown
    first = own(complete[0], task_column, target)
    turned = dict(reversed(first.items()))
    task = complete[0][task_column]
    values = model.predict([first, turned, dict.fromkeys(first)], task=task)
    assert values[0] == values[1]
    assert np.isfinite(values[2])


def test_categories_help_as_they_do_in_another_library(client, tmp_path):
    """Without ridge, one task is linear regression on the same encoding: the same predictions."""
    records = [r for r in known(records_of(PENGUINS), "body_mass_g") if r["sex"] is not None]
    names = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "year", "island", "sex"]
    rows = [{name: r[name] for name in names} for r in records]
    path = tmp_path / "rows.json"
    y = [r["body_mass_g"] for r in records]
    uploaded = [row | {"task": "all", "y": value} for row, value in zip(rows, y, strict=True)]
    path.write_text(json.dumps(uploaded))
    dataset = client.upload(path, target_column="y")
    model = client.train(dataset, "ridge", model="one-task", selection="given", gamma=1e-9).wait()
    encode = make_column_transformer(
        (SimpleImputer(strategy="median"), [0, 1, 2, 3]), (OneHotEncoder(), [4, 5])
    )
    X = np.array([[row[name] for name in names] for row in rows], dtype=object)
    peer = make_pipeline(encode, LinearRegression()).fit(X, y)
    np.testing.assert_allclose(model.predict(rows, task="all"), peer.predict(X), rtol=1e-5)


def test_a_raw_survey_with_comments_dates_and_identifiers_trains_by_default(client, tmp_path):
    records = records_of(PENGUINS_RAW)
    path = tmp_path / "penguins-raw.csv"
    path.write_bytes(PENGUINS_RAW.read_bytes())
    dataset = client.upload(path, task_column="Island", target_column="Sex")
    kinds = {c["name"]: c["kind"] for c in client.preview(dataset)["tasks"][0]["columns"]}
    assert kinds["Date Egg"] == "date"
    assert kinds["Stage"] == kinds["Clutch Completion"] == "category"
    assert kinds["Body Mass (g)"] == "number"
    assert "Individual ID" not in kinds or kinds["Individual ID"] == "category"
    model = client.train(dataset, "logistic-regression", model="sexes").wait()
    right = [
        model.predict([r], task=r["Island"])[0] == r["Sex"] for r in known(records, "Sex")[::7]
    ]
    assert np.mean(right) > 0.85
