"""Editors and type checkers know the estimators and their parameters by the stub file."""

import ast
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import sibling.estimators
from service.tools.stubs import STUB

pytestmark = pytest.mark.slow  # type checkers

ROOT = Path(__file__).parents[2]
PROGRAM = """
from sibling import MTFL, Client, FitWarning, Ridge

MTFL(gamma=1.0, grid=(0.1, 1.0), features="selected").fit([[0.0]], [0.0]).predict([[1.0]])
reveal_type(Ridge.load("file"))
MTFL(gama=1)
MTFL(features="chosen")
"""


@pytest.fixture(scope="module", params=["wheel", "editable"])
def python(request, tmp_path_factory):
    """The interpreter of an environment that has the package only, installed from its source."""
    STUB.unlink(missing_ok=True)
    folder = tmp_path_factory.mktemp(request.param) / "venv"
    target = folder / "bin" / "python"
    editable = ["--editable"] if request.param == "editable" else []
    install = ["pip", "install", "--quiet", "--python", target, "--no-deps", "--no-build-isolation"]
    packages = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}  # of the build
    for command in (["venv", "--quiet", folder], [*install, *editable, ROOT]):
        subprocess.run([sys.executable, "-m", "uv", *command], env=packages, check=True)
    return target


@pytest.mark.usefixtures("python")
def test_every_name_of_the_stub_file_exists():
    body = ast.parse(STUB.read_text(encoding="utf-8")).body
    classes = {node.name for node in body if isinstance(node, ast.ClassDef)}
    values = {node.target.id for node in body if isinstance(node, ast.AnnAssign)}
    assert classes <= sibling.estimators.ESTIMATORS.keys()
    assert all(hasattr(sibling.estimators, name) for name in values)


def test_type_checkers_find_mistyped_parameters(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", python, program],
        cwd=tmp_path,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition(".py:")[2] for line in done.stdout.splitlines()]
    assert lines[0] == '5: note: Revealed type is "sibling.estimators.Ridge"', done.stdout
    assert lines[1].startswith('6: error: Unexpected keyword argument "gama" for "MTFL"')
    assert lines[3].startswith('7: error: Argument "features" to "MTFL" has incompatible type')
    assert done.stdout.splitlines()[-1].startswith("Found 2 errors")
