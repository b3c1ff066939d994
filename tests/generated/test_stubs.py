"""Editors and type checkers know the estimators and their parameters by the stub file."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sibling.estimators
from service.tools.stubs import STUB, stub

pytestmark = pytest.mark.slow  # type checkers

ROOT = Path(__file__).parents[2]
PROGRAM = """
from sibling import MTFL, Client, FitWarning, Ridge

MTFL(gamma=1.0, grid=(0.1, 1.0), features="selected").fit([[0.0]], [0.0]).predict([[1.0]])
reveal_type(Ridge.load("file"))
MTFL(gama=1)
MTFL(features="chosen")
"""


def test_the_committed_stub_file_equals_the_generated_one():
    is_same = STUB.read_text(encoding="utf-8") == stub()
    assert is_same, f"{STUB.name} is out of date; run `make docs`"


def test_every_name_of_the_stub_file_exists():
    body = ast.parse(STUB.read_text(encoding="utf-8")).body
    classes = {node.name for node in body if isinstance(node, ast.ClassDef)}
    values = {node.target.id for node in body if isinstance(node, ast.AnnAssign)}
    assert classes <= sibling.estimators.ESTIMATORS.keys()
    assert all(hasattr(sibling.estimators, name) for name in values)


def test_type_checkers_find_mistyped_parameters(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition(".py:")[2] for line in done.stdout.splitlines()]
    assert lines[0] == '5: note: Revealed type is "sibling.estimators.Ridge"', done.stdout
    assert lines[1].startswith('6: error: Unexpected keyword argument "gama" for "MTFL"')
    assert lines[3].startswith('7: error: Argument "features" to "MTFL" has incompatible type')
    assert done.stdout.splitlines()[-1].startswith("Found 2 errors")
