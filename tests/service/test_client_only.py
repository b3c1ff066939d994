"""The client, its commands and the estimators work without the packages of the service."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Downloads the dependencies.
INSTALL_TIMEOUT_S = 900

pytestmark = [pytest.mark.slow, pytest.mark.installs, pytest.mark.timeout(INSTALL_TIMEOUT_S)]

MAIN_JOB = """
import importlib.util, sys
import numpy as np
from sibling import Client, Ridge

for name in ("fastapi", "uvicorn", "sqlalchemy", "distributed"):
    assert importlib.util.find_spec(name) is None, name

rng = np.random.default_rng(0)
X = {task: rng.normal(size=(20, 3)) for task in ("north", "south")}
y = {task: rows @ [1.0, 2.0, 3.0] for task, rows in X.items()}
with Client(sys.argv[1]) as client:
    dataset = client.upload(X, y, name="without the service")
    model = client.train(dataset, "ridge", model="without-the-service").wait()
    remote = model.predict(X["north"], task="north")
local = Ridge().fit(X, y).predict({"north": X["north"]})["north"]
assert np.array_equal(remote, local)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an environment of the project without its extras."""
    folder = tmp_path_factory.mktemp("client")
    python = folder / "venv" / "bin" / "python"
    for command in (
        ["venv", "--quiet", "--python", sys.executable, folder / "venv"],
        ["pip", "install", "--quiet", "--python", python, ROOT],
    ):
        subprocess.run([sys.executable, "-m", "uv", *command], check=True)
    return folder


def run(folder, program, *arguments):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SIBLING_", "PYTHONPATH"))}
    command = [folder / "venv" / "bin" / program, *arguments]
    return subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)


def test_a_model_is_trained_here_and_there_with_equal_predictions(folder, service):
    done = run(folder, "python", "-c", MAIN_JOB, service.url)
    assert done.returncode == 0, done.stderr


def test_the_command_uses_a_running_service(folder, service, model):
    done = run(folder, "sibling", "models", "list", "--url", service.url)
    assert done.returncode == 0, done.stderr
    assert model.name in done.stdout


def test_commands_of_the_service_say_what_to_install(folder):
    done = run(folder, "sibling", "serve")
    assert done.returncode == 1
    assert "install 'sibling[server]'" in done.stderr
