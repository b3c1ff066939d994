"""Client, commands and estimators work without the packages that they do not need."""

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
from sibling import Client

for name in ("fastapi", "uvicorn", "sqlalchemy", "distributed", "pydantic_settings"):
    assert importlib.util.find_spec(name) is None, name

rng = np.random.default_rng(0)
X = {task: rng.normal(size=(20, 3)) for task in ("north", "south")}
y = {task: rows @ [1.0, 2.0, 3.0] for task, rows in X.items()}
with Client(sys.argv[1]) as client:
    dataset = client.upload(X, y, name="without the service")
    model = client.train(dataset, "ridge", model="without-the-service").wait()
    remote = model.predict(X["north"], task="north")
assert remote.shape == (20,)
"""
AND_HERE = """
from sibling import Ridge

local = Ridge().fit(X, y).predict({"north": X["north"]})["north"]
assert np.array_equal(remote, local)
"""


def installed(folder, project):
    """Return a folder with an environment of the project."""
    python = folder / "venv" / "bin" / "python"
    for command in (
        ["venv", "--quiet", "--python", sys.executable, folder / "venv"],
        ["pip", "install", "--quiet", "--python", python, project],
    ):
        subprocess.run([sys.executable, "-m", "uv", *command], check=True)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an environment of the project without its extras."""
    return installed(tmp_path_factory.mktemp("client"), ROOT)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A folder with an environment of the project with the algorithms."""
    return installed(tmp_path_factory.mktemp("algorithms"), f"{ROOT}[algorithms]")


def run(folder, program, *arguments):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SIBLING_", "PYTHONPATH"))}
    command = [folder / "venv" / "bin" / program, *arguments]
    return subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)


def test_a_model_is_trained_there(folder, service):
    done = run(folder, "python", "-c", MAIN_JOB, service.url)
    assert done.returncode == 0, done.stderr


def test_a_model_is_trained_here_and_there_with_equal_predictions(training, service):
    done = run(training, "python", "-c", MAIN_JOB + AND_HERE, service.url)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "from sibling import Ridge",
        "from sibling import RemoteEstimator",
        "import sibling; sibling.MTFL()",
        "from sibling.estimators import Ridge",
        "from algorithms.registry import load_model",
    ],
)
def test_what_trains_here_says_what_to_install(folder, program):
    done = run(folder, "python", "-c", program)
    assert "pip install 'sibling[algorithms]'" in done.stderr.splitlines()[-1]


def test_the_names_of_the_package_are_listed_without_the_algorithms(folder):
    done = run(folder, "python", "-c", "import sibling; print(*dir(sibling))")
    assert "Client" in done.stdout.split(), done.stderr


def test_the_command_uses_a_running_service(folder, service, model):
    done = run(folder, "sibling", "models", "list", "--url", service.url)
    assert done.returncode == 0, done.stderr
    assert model.name in done.stdout


@pytest.mark.parametrize("command", ["serve", "demo", "migrate", "config"])
@pytest.mark.parametrize("environment", ["folder", "training"])
def test_commands_of_the_service_say_what_to_install(request, environment, command):
    done = run(request.getfixturevalue(environment), "sibling", command)
    assert done.returncode == 1
    assert "pip install 'sibling[server]'" in done.stderr
