"""MLflow loads and serves exported models, in an environment of its own.

MLflow does not allow the newest versions of packages that the service uses.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
INSTALL_TIMEOUT_S = 600
#: Prints what MLflow knows of a model, and its predictions for a table.
LOAD = """
import json, sys
import mlflow.pyfunc, pandas
model = mlflow.pyfunc.load_model("shops")
rows = pandas.read_csv("rows.csv")
try:
    model.predict(rows, params={"method": "transform"})
except ValueError as error:
    refused = str(error)
print(json.dumps({
    "inputs": model.metadata.signature.inputs.input_names(),
    "example": model.input_example["shop"].tolist(),
    "predictions": model.predict(rows).tolist(),
    "refused": refused,
}))
"""
SHOPS = pd.DataFrame(
    {
        "shop": np.tile(["north", "süd"], 20),
        "price": np.random.default_rng(0).normal(size=40),
        "colour": np.tile(["red", "blue", "red", "green"], 10),
        "sold": np.arange(40.0),
    }
)

pytestmark = [pytest.mark.slow, pytest.mark.installs, pytest.mark.timeout(INSTALL_TIMEOUT_S)]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment with the extra ``mlflow``, as users install it."""
    folder = tmp_path_factory.mktemp("mlflow")
    python, uv = folder / "bin" / "python", [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    install = ["pip", "install", "--quiet", "--python", python, f"{ROOT}[mlflow]"]
    done = subprocess.run([*uv, *install], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"MLflow cannot be installed: {done.stderr.strip()[-500:]}")
    return python


@pytest.fixture
def environment(service, python):
    """Variables of commands there."""
    own = {"SIBLING_URL": service.url, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    return {n: os.environ[n] for n in ("HOME", "SSL_CERT_FILE") if n in os.environ} | own


@pytest.fixture
def shops(client):
    """A model of a table with a task column and a category."""
    dataset = client.upload(SHOPS, task_column="shop", target_column="sold", name="for mlflow")
    return client.train(dataset, "mean-regularised", model="for-mlflow").wait()


@pytest.fixture
def folder(shops, python, environment, tmp_path):
    """A folder with the exported model ``shops``."""
    command = [python, "-m", "sibling", "models", "export", shops.name, "--mlflow", "shops"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    again = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
    assert again.returncode == 1
    return tmp_path


def test_mlflow_loads_a_model_with_its_signature_and_example(shops, folder, python, environment):
    SHOPS.drop(columns="sold").to_csv(folder / "rows.csv", index=False)
    command = [python, "-c", LOAD]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    found = json.loads(done.stdout)
    assert found["inputs"] == ["shop", "price", "colour"]
    assert found["example"] == ["north", "süd"]
    assert "no method 'transform'" in found["refused"]
    assert "sibling[mlflow]==" in (folder / "shops" / "requirements.txt").read_text()
    np.testing.assert_allclose(found["predictions"], shops.predict(SHOPS), rtol=1e-9)


def test_mlflow_serves_a_model(shops, folder, python, environment, wait_until, guard):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "mlflow", "models", "serve", "--env-manager", "local"]
    arguments = ["--model-uri", "shops", "--port", str(port), "--workers", "1"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [*command, *arguments], stdout=log, stderr=log, env=environment, cwd=folder
        ) as server,
        guard(server.pid),
    ):
        url = f"http://127.0.0.1:{port}"

        def is_ready():
            assert server.poll() is None, (folder / "log").read_text()
            try:
                return httpx.get(f"{url}/ping").status_code == 200
            except httpx.TransportError:
                return False

        wait_until(is_ready)
        split = SHOPS[["shop", "price", "colour"]].to_dict(orient="split", index=False)
        answer = httpx.post(f"{url}/invocations", json={"dataframe_split": split}, timeout=60)
        server.terminate()
    np.testing.assert_allclose(answer.json()["predictions"], shops.predict(SHOPS), rtol=1e-9)
