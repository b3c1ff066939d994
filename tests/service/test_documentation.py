"""The examples of the pages of docs/, run in order as a reader would."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

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
    webhooks = {"HOSTS": "localhost", "NETWORKS": "127.0.0.0/8,::1/128"}
    env = {f"SIBLING_WEBHOOK_{name}": value for name, value in webhooks.items()}
    with launch_service(SIBLING_WORKER_SLOTS=1, SIBLING_INGEST_WAIT_S=40, **env) as running:
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


#: Programs of the page in other languages: their file, the tool that runs them, and its command.
PROGRAMS = {
    "go": ("main.go", "go", "go run main.go"),
    "java": ("Main.java", "java", "java Main.java"),
    "csharp": ("Program.cs", "dotnet", "dotnet run"),
    "r": ("main.R", "Rscript", "Rscript main.R"),
    "julia": ("main.jl", "julia", "julia main.jl"),
}
#: Commands that prepare a folder, or fail where a library of the language is missing.
PREPARED = {
    "csharp": "dotnet new console --force --name program --output .",
    "r": "Rscript -e 'library(httr2); library(jsonlite)'",
    "julia": "julia -e 'using HTTP, JSON'",
}


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_in_another_language_prints_what_is_shown(read, documented, language):
    file, tool, command = PROGRAMS[language]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    if language in PREPARED:
        done = subprocess.run(
            shlex.split(PREPARED[language]), check=False, capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"{PREPARED[language]}: {done.stderr.strip()[-300:]}")
    read(CALLS)
    block = rf"```{language}\n(.*?)```\n+```text\n(.*?)```"
    code, shown = re.search(block, CALLS.read_text(encoding="utf-8"), re.DOTALL).groups()
    code = code.replace(f"http://{SESSION['DOCUMENTED_ADDRESS']}", documented.url)
    Path(file).write_text(code, encoding="utf-8")
    printed = subprocess.run(command.split(), check=False, capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    assert _without_numbers(printed.stdout) == _without_numbers(shown)


def _without_numbers(text):
    """Return a text with # for every number, which differ between machines, and single spaces."""
    return " ".join(re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", text).split())
