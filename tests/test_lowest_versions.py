"""The project works with the lowest versions of its dependencies that pyproject.toml allows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMOKE = Path(__file__).with_name("smoke.py")
#: Downloads all dependencies, and compiles the numba kernels.
INSTALL_TIMEOUT_S = 900
CHECK_TIMEOUT_S = 240

pytestmark = [pytest.mark.slow, pytest.mark.timeout(CHECK_TIMEOUT_S + 10)]


def run(*command, cwd, timeout_s=CHECK_TIMEOUT_S):
    """Run a command without settings of the caller; its output is shown if it fails."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SIBLING_") and name not in ("PYTHONPATH", "DATABASE_URL")
    }
    done = subprocess.run(
        command, cwd=cwd, env=env, check=False, capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment with the lowest versions, and the project as a wheel."""
    folder = tmp_path_factory.mktemp("lowest")
    python, requirements = folder / "venv" / "bin" / "python", folder / "requirements.txt"
    project = ROOT / "pyproject.toml"
    lowest = [
        "--extra",
        "server",
        "--resolution",
        "lowest-direct",
        "--python-version",
        "3.11",
        "--quiet",
    ]
    for command in (
        ["pip", "compile", project, *lowest, "--output-file", requirements],
        ["venv", "--quiet", "--python", sys.executable, folder / "venv"],
        ["pip", "install", "--quiet", "--python", python, "--requirements", requirements],
        ["pip", "install", "--quiet", "--python", python, "--no-deps", ROOT],
    ):
        run(sys.executable, "-m", "uv", *command, cwd=folder, timeout_s=INSTALL_TIMEOUT_S)
    run(python, "-m", "service.operations.warm", cwd=folder, timeout_s=INSTALL_TIMEOUT_S)
    return python


def test_every_module_can_be_imported_without_a_warning(python, tmp_path):
    run(python, SMOKE, "imports", cwd=tmp_path)


def test_the_generated_pages_are_those_of_the_documentation(python, tmp_path):
    run(python, SMOKE, "pages", ROOT / "docs", cwd=tmp_path)


def test_a_model_is_trained_and_predicts_over_http(python, tmp_path):
    run(python, SMOKE, "service", tmp_path, cwd=tmp_path)
