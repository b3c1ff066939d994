"""The wheel, installed with its dependencies into an environment outside the repository."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Downloads the dependencies; the first start of the service compiles the numba kernels.
INSTALL_TIMEOUT_S = 900

pytestmark = [pytest.mark.slow, pytest.mark.installs, pytest.mark.timeout(INSTALL_TIMEOUT_S)]

TRAIN = """
import sys
import numpy as np
from sibling import Client

rng = np.random.default_rng(0)
X = {task: rng.normal(size=(20, 3)) for task in ("north", "south")}
y = {task: rows @ [1.0, 2.0, 3.0] for task, rows in X.items()}
with Client(sys.argv[1]) as client:
    model = client.train(client.upload(X, y), "ridge", model="first").wait()
    error = np.abs(model.predict(X["north"], task="north") - y["north"]).max()
assert error < 0.1 * np.ptp(y["north"]), error
"""


def run(*command, cwd, **options):
    """Run a command without settings of the caller, and return its output."""
    done = subprocess.run(
        command, cwd=cwd, env=clean(), check=False, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def clean():
    return {k: v for k, v in os.environ.items() if not k.startswith(("SIBLING_", "PYTHON"))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an environment, in which the wheel is installed with the service."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = [sys.executable, "-m", "uv"]
    asked = [*uv, "pip", "compile", "--quiet", "--no-deps", "-"]
    found = subprocess.run(asked, input="hatchling", check=False, capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"no package index is reachable: {found.stderr.strip()[-500:]}")
    run(*uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("sibling-*.whl")
    python = folder / "venv" / "bin" / "python"
    run(*uv, "venv", "--quiet", "--python", sys.executable, folder / "venv", cwd=folder)
    run(*uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[server]", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def sibling(folder):
    return folder / "venv" / "bin" / "sibling"


def test_the_package_is_that_of_the_wheel_with_its_version(folder, sibling):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert run(sibling, "--version", cwd=folder).split()[-1] == project["version"]
    code = "import algorithms, migrations, service, sibling; print(sibling.__file__)"
    where = run(folder / "venv" / "bin" / "python", "-c", code, cwd=folder)
    assert where.startswith(str(folder / "venv"))


def test_the_first_example_of_the_readme_prints_what_it_shows(folder):
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    assert "Client" not in example
    printed = run(folder / "venv" / "bin" / "python", "-c", example, cwd=folder)
    assert printed == "1.0 (2, 4)\n"


def test_the_service_starts_trains_and_predicts(folder, sibling):
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [sibling, "serve", "--port", "0", "--data-dir", folder / "data"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
            env=clean(),
        ) as service,
    ):
        try:
            line = service.stdout.readline()
            assert line, (folder / "log").read_text()
            url = line.split()[3]
            run(folder / "venv" / "bin" / "python", "-c", TRAIN, url, cwd=folder)
            service.send_signal(signal.SIGTERM)
            assert service.wait(120) == 0
        finally:
            service.kill()
