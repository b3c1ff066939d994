"""The README's examples, run in order as a reader would."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

README = Path(__file__).parents[2] / "README.md"
SESSION = Path(__file__).with_name("page_session.py")


@pytest.mark.timeout(600)
def test_the_examples_run_in_order_and_print_what_is_shown(service, tmp_path):
    results = tmp_path / "results.json"
    command = [sys.executable, SESSION, README, service.url, results, "--fresh"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=600)
    blocks = json.loads(results.read_text())
    assert {block["language"] for block in blocks} == {"python", "bash"}
    outputs = [block["output"] for block in blocks]
    python, adapted, compared, chosen, classifier, local, curl, *rest = outputs
    batch, protocol, command, offline = rest
    assert "(6, 2) (6, 12)" in python
    assert adapted.startswith("2 ('patient 0',")
    assert "'patient 8')" in adapted
    assert _without_numbers(_shown_output()) in _without_numbers(compared)
    assert "Chosen: mean-regularised (tasks together)" in chosen
    assert classifier.startswith("Dee ('Dee', 'Eli') (8, 2) ")
    assert classifier.endswith(" 0% wrong\n")
    assert local == "1.0 (2, 4)\n"
    assert '"succeeded"' in curl
    assert '"outputs":[[' in curl
    assert "'rows': 6" in batch
    assert pq.read_table(tmp_path / "outputs.parquet").num_rows == 6
    assert '"model_name":"pupils.transform"' in protocol
    assert '"shape":[2,1]' in protocol
    assert "pupils" in command
    assert "k=2" in command
    assert '"task":"north","outputs":[[' in command
    assert "pupils@production is version 1" in command
    assert "transform by pupils, version 1: 6 rows in" in command
    assert pq.read_table(tmp_path / "all.parquet").num_rows == 6
    assert offline.startswith("('patient 0',")


def _shown_output():
    """Return the output that the README shows for its comparison."""
    found = re.search(r"^```text\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def _without_numbers(text):
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", text)


def test_every_path_it_links_to_is_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert "://" in target or (README.parent / target).exists(), target


@pytest.mark.parametrize("command", ["demo", "test"])
def test_its_two_commands_are_in_the_makefile(command):
    makefile = (README.parent / "Makefile").read_text()
    assert f"\nmake {command} " in README.read_text()
    assert re.search(rf"^{command}:", makefile, re.MULTILINE)
