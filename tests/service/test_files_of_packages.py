"""Tables of other packages are read as they are, trained, and sent back unchanged to predict."""

import importlib.resources
import io
import json
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from service.cli import app


class Table(NamedTuple):
    """A file of a package, its target, and the column with the task of each row, if any."""

    package: str
    path: str
    target: str
    task: str | None = None


def results(part, name, *roles):
    return Table("statsmodels", f"{part}/tests/results/{name}", *roles)


def named(name, *roles):
    return Table("statsmodels", f"datasets/{name}/{name}.csv", *roles)


#: Comma, tab, semicolon and blanks; with and without row names; gaps, dates, texts.
QUICK = (
    results("regression", "dietox.csv", "Weight", "Litter"),  # write.table of R
    results("regression", "pastes.csv", "strength", "batch"),  # write.csv of R
    results("othermod", "methylation-test.csv", "methylation", "gender"),  # to_csv of pandas
    results("gam", "autos.csv", "price", "fuel"),
    named("modechoice", "choice", "mode"),  # semicolons
    named("grunfeld", "invest", "firm"),
    named("anes96", "'vote'"),  # tabs
    Table("sklearn", "datasets/data/linnerud_exercise.csv", "Chins"),  # blanks
    Table("palmerpenguins", "data/penguins.csv", "body_mass_g", "species"),
    Table("vega_datasets", "_data/cars.json", "Miles_per_Gallon", "Origin"),
)
SLOW = (
    results("genmod", "epil.csv", "y", "trt"),
    results("genmod", "stata_cancer_glm.csv", "studytime", "drug"),
    results("genmod", "stata_lbw_glm.csv", "bwt", "race"),
    results("gam", "motorcycle.csv", "accel"),
    results("gam", "prediction_from_mgcv.csv", "y"),
    results("gam", "logit_gam_mgcv.csv", "y"),
    results("discrete", "ships.csv", "accident", "ship"),
    results("miscmodels", "ologit_ucla.csv", "apply", "pared"),
    results("multivariate", "mvreg.csv", "science", "prog"),
    results("multivariate", "factor_data.csv", "var5"),
    results("othermod", "foodexpenditure.csv", "food"),
    results("regression", "lme00.csv", "endog", "groups"),
    results("robust", "hbk.csv", "Y"),
    results("stats", "anova-rm-test-data.csv", "DV", "A"),
    results("stats", "framing.csv", "p_harm", "gender"),
    results("stats", "binary_constrict.csv", "rate", "diagnosis"),
    results("stats", "influence_measures_R.csv", "dffit"),
    named("ccard", "AVGEXP", "OWNRENT"),
    named("committee", "BILLS104"),
    named("copper", "COPPERPRICE"),
    named("cpunish", "EXECUTIONS"),
    Table("statsmodels", "datasets/danish_data/data.csv", "lrm"),
    named("elnino", "DEC"),
    named("engel", "foodexp"),
    Table("statsmodels", "datasets/fair/fair_pt.csv", "naffairs", "sex"),
    named("heart", "survival", "censors"),
    Table("statsmodels", "datasets/interest_inflation/E6.csv", "R", "quarter"),
    named("longley", "TOTEMP"),
    named("macrodata", "realgdp", "quarter"),
    Table("statsmodels", "datasets/scotland/scotvote.csv", "YES"),
    named("spector", "'GPA'"),
    named("stackloss", "STACKLOSS"),
    named("star98", "MATHTOT"),
    named("statecrime", "violent"),
    named("strikes", "duration"),
    named("sunspots", "SUNACTIVITY"),
    named("nile", "volume"),
    Table("sklearn", "datasets/data/linnerud_physiological.csv", "Weight"),
    Table("palmerpenguins", "data/penguins-raw.csv", "Body Mass (g)", "Species"),
    Table("vega_datasets", "_data/barley.json", "yield", "site"),
    Table("vega_datasets", "_data/anscombe.json", "Y", "Series"),
    Table("vega_datasets", "_data/iris.json", "species"),
    Table("vega_datasets", "_data/iowa-electricity.csv", "net_generation", "source"),
    Table("vega_datasets", "_data/seattle-weather.csv", "temp_max", "weather"),
)


def path_of(table):
    return importlib.resources.files(table.package).joinpath(table.path)


def uploaded(client, table):
    roles = {"target_column": table.target}
    roles |= {} if table.task is None else {"task_column": table.task}
    return client.upload(path_of(table), name=table.path.replace("/", " "), **roles)


def assert_sent_back(service, model, table, n_rows):
    """Check that the file has one prediction for each row, the same by client and command."""
    path = path_of(table)
    types = {".csv": "text/csv", ".json": "application/json"}
    by_client = model.call("predict", path.read_bytes(), types[path.suffix], task=None)
    assert len(by_client) == n_rows
    arguments = ["predict", model.name, str(path), "--format", "npy", "--url", service.url]
    end = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert end.exit_code == 0, end.output
    by_command = np.load(io.BytesIO(end.stdout_bytes))
    assert by_command.tolist() == by_client.tolist()


def n_rows_of(table):
    """Return the rows of the file: its lines below the header, or its records."""
    text = path_of(table).read_text(encoding="utf-8-sig")
    if table.path.endswith(".json"):
        return len(json.loads(text))
    return len([line for line in text.splitlines() if line.strip()]) - 1


def ids(tables):
    return [pytest.param(table, id=table.path.rpartition("/")[2]) for table in tables]


@pytest.mark.parametrize("table", ids(QUICK))
@pytest.mark.quick(3)
def test_a_table_of_a_package_is_trained_and_sent_back(service, client, table):
    dataset = uploaded(client, table)
    target = client.preview(dataset)["tasks"][0]["target"]
    algorithm = "constant" if target == "classes" else "ridge"
    model = client.train(dataset, algorithm, model=f"quick-{table.path.rpartition('/')[2]}").wait()
    assert_sent_back(service, model, table, n_rows_of(table))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("table", ids(QUICK + SLOW))
def test_auto_is_trained_on_a_table_of_a_package_that_is_sent_back(service, client, table):
    dataset = uploaded(client, table)
    name = f"auto-{table.path.rpartition('/')[2]}"
    model = client.train(dataset, "auto", model=name, budget_s=5).wait()
    assert_sent_back(service, model, table, n_rows_of(table))


@pytest.mark.slow
def test_share_prices_have_the_same_model_with_written_and_with_iso_dates(client):
    path = importlib.resources.files("vega_datasets").joinpath("_data/stocks.csv")
    written = pd.read_csv(path)
    dates = pd.to_datetime(written["date"], format="%b %d %Y")
    iso = written.assign(date=dates.dt.strftime("%Y-%m-%d"))
    assert written["date"][0] == "Jan 1 2000"
    outputs = []
    for name, frame in {"written": written, "iso": iso}.items():
        data = frame.to_csv(index=False).encode()
        dataset = client.upload(
            frame, name=f"stocks {name}", task_column="symbol", target_column="price"
        )
        kinds = [column["kind"] for column in client.preview(dataset)["tasks"][0]["columns"]]
        assert kinds == ["date"]
        model = client.train(dataset, "ridge", model=f"stocks-{name}").wait()
        outputs.append(model.call("predict", data, "text/csv", task=None))
    assert outputs[0].tolist() == outputs[1].tolist()
