"""The examples of the pages of docs/, run in order as a reader would."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SESSION = Path(__file__).with_name("page_session.py")
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if re.search(r"(?m)^ *```(python|bash)$", page.read_text(encoding="utf-8"))
]


@pytest.mark.timeout(600)  # some pages train ten models
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_examples_of_a_page_run_and_print_what_is_shown(page, service, tmp_path):
    results = tmp_path / "results.json"
    folder = tmp_path / "reader"
    folder.mkdir()
    command = [sys.executable, SESSION, page, service.url, results]
    subprocess.run(command, cwd=folder, check=True, timeout=600)
    for block in json.loads(results.read_text()):
        shown = _without_numbers(block["shown"] or "")
        assert shown in _without_numbers(block["output"]), block["code"]


def _without_numbers(text):
    """Return a text with # for every number, which differ between machines, and single spaces."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", text))
