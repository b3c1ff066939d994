"""Plots of estimators."""

import sys

import altair as alt
import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from sibling import MTFL, RMTPCA, Constant, LogisticRegression
from sibling.charts import MissingPackage
from sibling.plots import NoPlot

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
TASKS = np.repeat(["a", "b", "c"], 20)
NUMBERS = X @ [1.0, 2.0, 0.0, 0.0] + 0.1 * RNG.normal(size=60)
LABELS = np.where(NUMBERS + RNG.normal(size=60) > 0, "yes", "no")


@pytest.fixture(scope="module")
def mtfl():
    return MTFL(gamma=0.1, selection="given").fit(X, NUMBERS, tasks=TASKS)


def tables(chart):
    """Return the data of a chart that the schema of Vega-Lite allows."""
    return chart.to_dict()["datasets"]


def test_an_estimator_lists_its_plots_and_draws_them(mtfl):
    assert mtfl.plot() == ["relations", "spectrum", "objective", "predictions", "residuals"]
    for name in mtfl.plot()[:3]:
        chart = mtfl.plot(name, theme="dark")
        assert isinstance(chart, alt.TopLevelMixin)
        assert tables(chart)
    shares = [row["share"] for row in tables(mtfl.plot("spectrum"))["spectrum"]]
    np.testing.assert_array_equal(shares, mtfl.feature_weights_)
    steps = tables(mtfl.plot("objective"))["steps"]
    assert steps[-1]["objective"] == mtfl.history_["objective"][-1]


@pytest.mark.slow
def test_a_loaded_estimator_has_the_plots_of_the_model(mtfl, tmp_path):
    mtfl.save(tmp_path / "m.safetensors")
    loaded = MTFL.load(tmp_path / "m.safetensors")
    assert loaded.plot() == ["relations", "spectrum", "predictions", "residuals"]
    assert tables(loaded.plot("relations")) == tables(mtfl.plot("relations"))


@pytest.mark.parametrize("by_task", [False, True])
@pytest.mark.quick(1)
def test_predicted_numbers_are_those_of_predict(mtfl, by_task):
    rows, y, tasks = X[:40], NUMBERS[:40], TASKS[:40]
    expected = mtfl.predict(rows, tasks=tasks)
    if by_task:
        rows = {task: X[task == TASKS] for task in ("a", "b")}
        y, tasks = {task: NUMBERS[task == TASKS] for task in ("a", "b")}, None
    points = tables(mtfl.plot("predictions", rows, y, tasks=tasks))["points"]
    np.testing.assert_array_equal([point["predicted"] for point in points], expected)
    np.testing.assert_array_equal([point["true"] for point in points], NUMBERS[:40])
    assert [point["task"] for point in points] == TASKS[:40].tolist()
    residuals = tables(mtfl.plot("residuals", rows, y, tasks=tasks))["points"]
    np.testing.assert_array_equal([p["residual"] for p in residuals], NUMBERS[:40] - expected)
    with pytest.raises(NoPlot, match="needs targets that are classes"):
        mtfl.plot("confusion", rows, y, tasks=tasks)


@pytest.mark.slow
def test_predicted_classes_are_those_of_predict():
    model = LogisticRegression().fit(X, LABELS, tasks=TASKS)
    cells = tables(model.plot("confusion", X, LABELS, tasks=TASKS))["cells"]
    found = np.array([cell["rows"] for cell in cells]).reshape(2, 2)
    expected = confusion_matrix(LABELS, model.predict(X, tasks=TASKS), labels=["no", "yes"])
    np.testing.assert_array_equal(found, expected)
    curves = tables(model.plot("roc", X, LABELS, tasks=TASKS))["curves"]
    assert {point["task"] for point in curves} == {"a", "b", "c"}


@pytest.mark.slow
def test_a_single_task_and_subspaces_have_their_plots():
    assert RMTPCA(k=2).fit(X).plot() == ["spectrum", "objective"]
    assert "angles" in RMTPCA(k=2).fit(X, tasks=TASKS).plot()
    points = tables(Constant().fit(X, NUMBERS).plot("residuals", X, NUMBERS))["points"]
    residuals = [point["residual"] for point in points]
    np.testing.assert_allclose(residuals, NUMBERS - NUMBERS.mean(), atol=1e-12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((X,), "X is given without y"),
        (({"a": X}, NUMBERS), "pass y by task, too"),
        ((X, {"a": NUMBERS}), "y is by task, but X is not"),
        ((X, LABELS), "the model predicts numbers, but y has '(yes|no)'"),
        ((X, NUMBERS[:3]), r"expected y for each of the 60 rows, got shape \(3,\)"),
    ],
)
def test_wrong_rows_of_a_plot_are_explained(mtfl, given, message):
    with pytest.raises(ValueError, match=message):
        mtfl.plot("predictions", *given, tasks=None if len(given[0]) == 1 else TASKS)


def test_wrong_options_of_a_plot_are_explained(mtfl):
    with pytest.raises(ValueError, match="unknown theme 'blue'; the themes are: light, dark"):
        mtfl.plot("relations", theme="blue")
    with pytest.raises(TypeError, match=r"plot\(\) got an unexpected keyword argument 'colour'"):
        mtfl.plot("relations", colour="red")


def test_a_plot_of_rows_says_what_it_needs(mtfl):
    with pytest.raises(NoPlot, match=r"needs rows and their targets.*plot\('roc', X, y\)"):
        mtfl.plot("roc")
    with pytest.raises(NoPlot, match="'confusion' needs targets that are classes"):
        mtfl.plot("confusion", X, NUMBERS, tasks=TASKS)
    three = np.array(["x", "y", "z"])[np.arange(60) % 3]
    model = LogisticRegression(selection="given").fit(X, three)
    assert model.plot()[-1:] == ["confusion"]
    with pytest.raises(NoPlot, match="'roc' needs a task with two classes"):
        model.plot("roc", X, three)
    model = LogisticRegression(selection="given").fit(X, LABELS)
    assert model.plot()[-2:] == ["confusion", "roc"]
    model = LogisticRegression(selection="given", calibration=True).fit(X, LABELS)
    assert "reliability" in model.plot()
    with pytest.raises(NoPlot, match="and rows of both of them"):
        model.plot("roc", X[LABELS == "no"], LABELS[LABELS == "no"])


def test_without_altair_there_is_a_sentence(mtfl, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingPackage, match=r"pip install 'sibling\[plots\]'"):
        mtfl.plot("relations")
