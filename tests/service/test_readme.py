"""The README's examples, run in order as a reader would."""

import json
import os
import re
import runpy
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
SESSION = runpy.run_path(str(Path(__file__).with_name("page_session.py")))


def test_the_first_example_prints_what_is_shown():
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    assert SESSION["run_python"](code, {}) == "1.0 (2, 4)\n"


@pytest.mark.slow  # a comparison by default
def test_the_examples_run_in_order_and_print_what_is_shown(service, tmp_path, monkeypatch):
    results = tmp_path / "results.json"
    monkeypatch.chdir(tmp_path)
    for name in ("SIBLING_URL", "PATH"):  # set by the session, and restored here
        monkeypatch.setenv(name, os.environ.get(name, ""))
    SESSION["main"](README, service.url, results, "--fresh")
    blocks = json.loads(results.read_text())
    assert [block["language"] for block in blocks] == ["python", "python", "bash"]
    local, remote, command = (block["output"] for block in blocks)
    assert local == "1.0 (2, 4)\n"
    assert re.search(r"^\[.*\]\n(helps|hurts|equal|unclear)\n$", remote, re.MULTILINE)
    assert "pupils" in command
    assert len(re.findall(r"^-?\d+\.\d+$", command, re.MULTILINE)) == 6  # a row each


def test_its_length_and_its_first_result():
    """A reader sees the result first, with the numbers that the benchmark has measured."""
    text = README.read_text()
    assert text.count("\n") <= 150
    kept = json.loads((README.parent / "benchmarks" / "results" / "digits.json").read_text())
    claims = json.dumps(kept["full"])
    for share in ("49.7", "44.4", "44.0"):
        assert f"{share} %" in text
        assert f"{share}%" in claims


def test_every_path_it_links_to_is_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert "://" in target or (README.parent / target).exists(), target


@pytest.mark.parametrize("command", ["demo", "test"])
def test_its_two_commands_are_in_the_makefile(command):
    makefile = (README.parent / "Makefile").read_text()
    assert f"\nmake {command} " in README.read_text()
    assert re.search(rf"^{command}:", makefile, re.MULTILINE)
