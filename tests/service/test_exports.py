"""Models in the formats of other programs answer as the service does."""

import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

import sibling
from algorithms.registry import load_model
from sibling.export import NotExportable, onnx_model

pytestmark = pytest.mark.slow  # MLflow takes seconds to import, and few have it

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
    ("LogisticRegression", "two"),
    ("LogisticRegression", "three"),
]


@pytest.fixture
def onnx():
    return pytest.importorskip("onnx", reason="onnx is not installed: the extra 'onnx'")


def run_graph(path, task, rows):
    """Return the outputs of a graph by name."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(path)
    values = session.run(None, {"task": np.array([task] * len(rows), dtype=object), "rows": rows})
    return dict(zip((one.name for one in session.get_outputs()), values, strict=True))


def exported(estimator, folder):
    """Return the path of the graph of an estimator."""
    estimator.save(folder / "model.safetensors")
    return onnx_model.write(folder / "model.safetensors", folder / "model.onnx")


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


@pytest.mark.usefixtures("onnx")
@pytest.mark.parametrize(("name", "target"), EXPORTED)
@pytest.mark.filterwarnings("ignore::sibling.FitWarning")
def test_a_graph_has_the_outputs_of_the_estimator(tmp_path, name, target):
    estimator = getattr(sibling, name)().fit(X, TARGETS[target])
    assert_equal(estimator, exported(estimator, tmp_path), X)


@pytest.mark.usefixtures("onnx")
def test_a_task_that_the_model_does_not_have_is_an_error_of_the_runtime(tmp_path):
    path = exported(sibling.Ridge().fit(X, NUMBERS), tmp_path)
    with pytest.raises(Exception, match="out of data bounds"):
        run_graph(path, "west", X["north"])


@pytest.mark.usefixtures("onnx")
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


@pytest.mark.usefixtures("onnx")
@pytest.mark.parametrize(
    ("name", "reason"), [("GP", "'gp'"), ("BoostedTrees", "'boosted-trees'"), ("Ridge", "classes")]
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


@pytest.fixture
def mlflow():
    reason = "MLflow is not installed: the extra 'mlflow'"
    pytest.importorskip("mlflow.pyfunc.scoring_server", reason=reason, exc_type=ImportError)
    return pytest.importorskip("mlflow.pyfunc", reason=reason)


@pytest.mark.filterwarnings("ignore")  # of MLflow itself
def test_mlflow_loads_a_model_with_its_signature_and_example(mlflow, shops, tmp_path):
    folder = shops.to_mlflow(tmp_path / "shops")
    loaded = mlflow.load_model(str(folder))
    assert loaded.metadata.signature.inputs.input_names() == ["shop", "price", "colour"]
    assert loaded.input_example["shop"].tolist() == ["north", "süd"]
    assert f"sibling[mlflow]=={sibling.__version__}" in (folder / "requirements.txt").read_text()
    np.testing.assert_allclose(loaded.predict(SHOPS), shops.predict(SHOPS), rtol=1e-9)
    with pytest.raises(ValueError, match="no method 'transform'"):
        loaded.predict(SHOPS, params={"method": "transform"})
    with pytest.raises(FileExistsError):
        shops.to_mlflow(folder)


@pytest.mark.usefixtures("mlflow")
@pytest.mark.filterwarnings("ignore")  # of MLflow itself
def test_mlflow_serves_a_model(shops, tmp_path, wait_until, guard):
    folder = shops.to_mlflow(tmp_path / "shops")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local"]
    arguments = ["--model-uri", str(folder), "--port", str(port), "--workers", "1"]
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([*command, *arguments], stdout=log, stderr=log, env=env) as server,
        guard(server.pid),
    ):
        url = f"http://127.0.0.1:{port}"

        def is_ready():
            assert server.poll() is None, (tmp_path / "log").read_text()
            try:
                return httpx.get(f"{url}/ping").status_code == 200
            except httpx.TransportError:
                return False

        wait_until(is_ready)
        split = SHOPS[["shop", "price", "colour"]].to_dict(orient="split", index=False)
        answer = httpx.post(f"{url}/invocations", json={"dataframe_split": split}, timeout=60)
        server.terminate()
    np.testing.assert_allclose(answer.json()["predictions"], shops.predict(SHOPS), rtol=1e-9)


def test_the_command_exports_or_says_what_is_missing(service, shops, command, tmp_path):
    target = tmp_path / "model.onnx"
    done = command("models", "export", shops.name, "--onnx", target, SIBLING_URL=service.url)
    assert done.returncode == 1
    assert "colour" in done.stderr or "sibling[onnx]" in done.stderr
    both = ("--onnx", target, "--mlflow", tmp_path / "folder")
    assert command("models", "export", shops.name, *both, SIBLING_URL=service.url).returncode == 2
