"""The examples of the pages of docs/, run in order as a reader would."""

import json
import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sklearn
import sqlalchemy as sa

DOCS = Path(__file__).parents[2] / "docs"
SESSION = runpy.run_path(str(Path(__file__).with_name("page_session.py")))
CALLS = DOCS / "how-to" / "call-a-model.md"
NOTEBOOKS = {path.stem for path in (DOCS / "notebooks").glob("*.py")}  # run by test_notebooks.py
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.stem not in NOTEBOOKS
    and re.search(r"(?m)^ *```(python|bash)$", page.read_text(encoding="utf-8"))
]

pytestmark = pytest.mark.slow  # every example


@pytest.fixture(scope="module")
def documented(launch_service):
    """A server of its own: pages create keys, and the names of their datasets are ambiguous."""
    with launch_service(SIBLING_WORKER_SLOTS=1, SIBLING_INGEST_WAIT_S=40) as running:
        yield running


@pytest.fixture
def read(documented, tmp_path, monkeypatch):
    """Return a function that runs the examples of a page in an empty folder."""
    results = tmp_path / "results.json"
    folder = tmp_path / "reader"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", os.environ["PATH"])  # both are changed, and restored
    monkeypatch.setenv("SIBLING_URL", documented.url)
    data_dir = Path(sa.make_url(documented.database_url).database).parent
    monkeypatch.setenv("SIBLING_DATA_DIR", str(data_dir))
    monkeypatch.setenv("SIBLING_PORT", "0")  # `sibling doctor` looks whether it is free

    def run(page):
        with sklearn.config_context():  # pages change the configuration
            SESSION["main"](str(page), documented.url, results)
        return json.loads(results.read_text())

    return run


@pytest.mark.timeout(600)  # some pages train ten models
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_examples_of_a_page_run_and_print_what_is_shown(page, read):
    for block in read(page):
        shown = _without_numbers(block["shown"] or "")
        assert shown in _without_numbers(block["output"]), block["code"]


@pytest.mark.slow  # it compiles the library of Go
@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_the_program_in_go_prints_what_is_shown(read, documented):
    read(CALLS)
    found = re.search(r"```go\n(.*?)```\n+```text\n(.*?)```", CALLS.read_text(), re.DOTALL)
    address = urlsplit(documented.url).netloc
    code = found[1].replace(SESSION["DOCUMENTED_ADDRESS"], address)
    Path("main.go").write_text(code, encoding="utf-8")
    printed = subprocess.run(["go", "run", "main.go"], capture_output=True, text=True, check=True)
    assert _without_numbers(printed.stdout) == _without_numbers(found[2])


def _without_numbers(text):
    """Return a text with # for every number, which differ between machines, and single spaces."""
    return " ".join(re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", text).split())
