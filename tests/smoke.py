"""Checks of an installed Sibling, which need nothing but its dependencies: ``python smoke.py``.

`test_lowest_versions.py` runs each of them in an environment of its own.
"""

import contextlib
import importlib
import pkgutil
import subprocess
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import orjson

import algorithms
import service
import sibling

TIMEOUT_S = 60
PUPILS = """task,reading,writing,maths,score
north,4.1,3.9,2.0,7.5
north,2.2,2.4,5.1,4.1
north,3.0,3.3,4.2,5.9
north,3.7,3.1,2.8,6.6
south,4.4,4.0,2.5,8.0
south,1.9,2.1,4.8,3.6
south,3.1,2.9,3.9,5.7
south,2.6,2.2,4.4,4.7
"""
ROWS = [[4.0, 4.0, 2.0], [2.0, 2.5, 5.0]]


def check_imports() -> None:
    """Import every module; a warning is an error, except deprecations, which users do not see."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", DeprecationWarning)
    for package in (algorithms, sibling, service):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def check_pages(docs: Path) -> None:
    """Compare the generated pages with the committed ones.

    Versions of pydantic write the same schema differently (``additionalProperties``, 60 or 60.0,
    1e100 or 1e+100), so of the API only operations, schemas and their fields are compared, and of
    the algorithms only the headings.
    """
    from service.tools.generate import pages  # only here: check_imports must see its warnings

    for name, text in pages().items():
        committed = (docs / name).read_text(encoding="utf-8")
        if name.endswith("openapi.json"):
            assert _outline(text) == _outline(committed)
        elif name.startswith("reference/algorithms/"):
            assert _headings(text) == _headings(committed)
        else:
            assert text == committed, name


def _outline(text: str) -> dict[str, object]:
    document = orjson.loads(text)
    schemas = document["components"]["schemas"].items()
    return {
        "operations": {path: sorted(item) for path, item in document["paths"].items()},
        "schemas": {name: sorted(schema.get("properties", ())) for name, schema in schemas},
    }


def _headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("## ")]


def check_service(folder: Path) -> None:
    """Start the service, upload a CSV file, train, predict, and stop the service."""
    from algorithms.registry import ALGORITHMS
    from sibling import Client

    source = folder / "pupils.csv"
    source.write_text(PUPILS, encoding="utf-8")
    with _running_service(folder) as url, Client(url) as client:
        assert {algorithm["name"] for algorithm in client.algorithms} == set(ALGORITHMS)
        dataset = client.upload(source, name="pupils", target_column="score")
        model = client.train(dataset, "mtfl", model="scores").wait()
        scores = model.predict(ROWS, task="north")
        assert scores[0] > 6 > scores[1], scores

        rows = client.upload({"north": ROWS, "south": ROWS[::-1]})
        projected = client.train(rows, "pca", model="rows", k=1).wait()
        assert projected.transform(ROWS, task="south").shape == (2, 1)

        command = [_script("sibling"), "models", "--url", url]
        listed = subprocess.run(command, check=True, capture_output=True, text=True)
        assert "scores" in listed.stdout, listed


@contextmanager
def _running_service(folder: Path) -> Iterator[str]:
    log_path = folder / "service.log"
    command = [_script("sibling"), "serve", "--port", "0", "--data-dir", str(folder / "data")]
    with (
        log_path.open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            first_line = process.stdout.readline()
            assert "http://" in first_line, log_path.read_text(encoding="utf-8")
            url = next(word for word in first_line.split() if word.startswith("http://"))
            _wait_ready(url)
            yield url
        finally:
            process.terminate()
            exit_code = process.wait(TIMEOUT_S)
    assert exit_code == 0, log_path.read_text(encoding="utf-8")


def _wait_ready(url: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/v2/health/ready").is_success:
                return
        time.sleep(0.1)
    raise AssertionError(f"the service is not ready after {TIMEOUT_S} s")


def _script(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts"), name))


if __name__ == "__main__":
    check, *paths = sys.argv[1:]
    {"imports": check_imports, "pages": check_pages, "service": check_service}[check](
        *map(Path, paths)
    )
