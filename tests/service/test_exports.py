"""Models as ONNX graphs answer as the service does; test_mlflow.py has those of MLflow."""

import itertools
from importlib.util import find_spec

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import sibling
from algorithms.registry import load_model
from sibling.export import NotExportable, onnx_model

pytestmark = pytest.mark.slow  # fits every kind of model

TOLERANCE = 1e-6
TASKS = ("north", "süd", "a/b")
RNG = np.random.default_rng(0)
X = {task: RNG.normal(size=(40, 3)) for task in TASKS}
NUMBERS = {task: rows @ [1.0, 2.0, 3.0] + RNG.normal(size=40) for task, rows in X.items()}
TARGETS = {
    "none": None,
    "numbers": NUMBERS,
    "two": {task: np.where(y > 0, "yes", "no") for task, y in NUMBERS.items()},
    "three": {task: np.digitize(y, [-1, 1]) for task, y in NUMBERS.items()},
    "words": {
        task: np.take(["c", "b", "a"], np.digitize(y, [-1, 1])) for task, y in NUMBERS.items()
    },
}
#: Estimators whose models are graphs, with kinds of their targets.
EXPORTED = [
    *itertools.product(("TaskPCA", "CommonPCA", "RMTPCA", "TransferPCA"), ("none",)),
    *itertools.product(
        ("TraceRatioLDA", "RatioTraceLDA", "NullSpaceLDA", "Aggregate", "PCAClassifier", "MTDA"),
        ("two", "three"),
    ),
    *itertools.product(
        ("Ridge", "MTFL", "MeanRegularised", "SharedLasso", "CMTL", "GMTL", "MixedModel"),
        ("numbers", "two"),
    ),
    *itertools.product(("LogisticRegression",), ("two", "three")),
    *itertools.product(("BoostedTrees",), ("numbers", "two", "words")),
    ("Ridge", "words"),
    ("PPCA", "none"),
]
CALIBRATED = [
    *itertools.product(("BoostedTrees", "Ridge", "LogisticRegression", "MTDA"), ("two", "words")),
    ("Ridge", "numbers"),
]


def run_graph(path, task, rows):
    """Return the outputs of a graph by name."""
    session = onnxruntime.InferenceSession(path)
    values = session.run(None, {"task": np.array([task] * len(rows), dtype=object), "rows": rows})
    return dict(zip((one.name for one in session.get_outputs()), values, strict=True))


def exported(estimator, folder):
    """Return the path of the graph of an estimator."""
    return estimator.to_onnx(folder / "model.onnx")


def assert_equal(estimator, path, rows_by_task):
    for task, rows in rows_by_task.items():
        outputs = run_graph(path, task, rows)
        assert outputs
        for method, values in outputs.items():
            ours = getattr(estimator, method)(rows, tasks=task)
            if ours.dtype.kind == "f":
                np.testing.assert_allclose(values, ours, rtol=TOLERANCE, atol=TOLERANCE)
            else:
                assert (values == ours).all()


@pytest.mark.parametrize(("name", "target"), EXPORTED)
@pytest.mark.filterwarnings("ignore::sibling.FitWarning")
def test_a_graph_has_the_outputs_of_the_estimator(tmp_path, name, target):
    estimator = getattr(sibling, name)().fit(X, TARGETS[target])
    assert_equal(estimator, exported(estimator, tmp_path), X)


@pytest.mark.parametrize("form", ["task", "pooled"])
def test_trees_of_each_task_and_of_all_tasks_follow_every_split(tmp_path, form):
    """Rows on thresholds show whether these are rounded."""
    y = {task: rows[:, 0] * (1 + TASKS.index(task)) for task, rows in X.items()}
    estimator = sibling.BoostedTrees(form=form, min_rows=1, n_trees=40, selection="given")
    estimator.fit(X, y).adapt(X["süd"], -y["süd"], task="new")
    model = estimator.model_
    edges = model.forest.threshold[:40, np.newaxis] * model.scale + model.mean
    near = [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
    assert_equal(
        estimator, exported(estimator, tmp_path), dict.fromkeys(model.tasks, np.concatenate(near))
    )


@pytest.mark.parametrize("threshold", [None, "prevalence"])
@pytest.mark.parametrize(("name", "target"), CALIBRATED)
@pytest.mark.filterwarnings("ignore::sibling.FitWarning")
def test_calibrated_models_have_their_probabilities(tmp_path, name, target, threshold):
    if target == "numbers" and threshold:
        pytest.skip("a threshold chooses between classes")
    calibration = {"n_folds": 2, "threshold": threshold}
    estimator = getattr(sibling, name)(calibration=calibration).fit(X, TARGETS[target])
    path = exported(estimator, tmp_path)
    assert_equal(estimator, path, X)
    outputs = run_graph(path, "north", X["north"])
    assert ("predict_proba" in outputs) == (target != "numbers")
    assert "predict" in outputs or threshold is None


def test_a_task_that_the_model_does_not_have_is_an_error_of_the_runtime(tmp_path):
    path = exported(sibling.Ridge().fit(X, NUMBERS), tmp_path)
    with pytest.raises(Exception, match="out of data bounds"):
        run_graph(path, "west", X["north"])


@pytest.mark.parametrize("per_task", [False, True])
def test_missing_values_are_filled_in_the_graph(client, tmp_path, per_task):
    rows = pd.DataFrame(X["north"], columns=["a", "b", "c"])
    rows.loc[3, "a"] = rows.loc[5, "b"] = np.nan
    table = pd.concat([rows.assign(task=task, y=NUMBERS[task]) for task in TASKS])
    dataset = client.upload(table, target_column="y", name=f"gaps {per_task}")
    name = f"gaps-{per_task}"
    preparation = {"per_task": per_task}
    model = client.train(dataset, "ridge", model=name, preparation=preparation).wait()
    path = model.to_onnx(tmp_path / "model.onnx")
    outputs = run_graph(path, "süd", rows.to_numpy())
    ours = model.predict(rows, task="süd")
    np.testing.assert_allclose(outputs["predict"], ours, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("name", "reason"), [("GP", "'gp'"), ("KernelRidge", "'kernel-ridge'"), ("Ridge", "classes")]
)
def test_what_no_graph_can_say_is_refused_with_the_reason(tmp_path, name, reason):
    y = {**NUMBERS} if name != "Ridge" else {t: np.where(v > 0, t, "") for t, v in NUMBERS.items()}
    estimator = getattr(sibling, name)().fit(X, y)
    estimator.save(tmp_path / "model.safetensors")
    with pytest.raises(NotExportable, match=reason):
        onnx_model.graph_of(load_model(tmp_path / "model.safetensors"))


SHOPS = pd.DataFrame(
    {
        "shop": np.tile(["north", "süd"], 20),
        "price": RNG.normal(size=40),
        "colour": np.tile(["red", "blue", "red", "green"], 10),
        "sold": np.arange(40.0),
    }
)


@pytest.fixture
def shops(client):
    """A model of a table with a task column and a category."""
    dataset = client.upload(SHOPS, task_column="shop", target_column="sold", name="exported shops")
    return client.train(dataset, "mean-regularised", model="exported-shops").wait()


@pytest.mark.skipif(find_spec("mlflow") is not None, reason="MLflow is installed")
def test_without_mlflow_the_error_names_the_extra(shops, tmp_path):
    with pytest.raises(ImportError, match=r"sibling\[mlflow\]"):
        shops.to_mlflow(tmp_path / "shops")


def test_the_command_says_why_a_model_has_no_graph(service, shops, command, tmp_path):
    target = tmp_path / "model.onnx"
    done = command("models", "export", shops.name, "--onnx", target, SIBLING_URL=service.url)
    assert done.returncode == 1
    assert "colour" in done.stderr
    both = ("--onnx", target, "--mlflow", tmp_path / "folder")
    assert command("models", "export", shops.name, *both, SIBLING_URL=service.url).returncode == 2
