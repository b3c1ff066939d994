"""Algorithms of other installed packages."""

import html
import os
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from algorithms.interface.algorithm import InvalidExtension, load_extensions

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "shrunken-means"
CONTRACT = ROOT / "tests" / "algorithms" / "test_contract.py"
NAME = "shrunken-means"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A folder with the example package, installed by pip."""
    site = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", site, EXAMPLE]
    subprocess.run(command, check=True)
    return site


def python_path(site):
    return os.pathsep.join([str(ROOT), str(site)])


@pytest.mark.slow
def test_the_contract_tests_hold_for_an_algorithm_of_another_package(site):
    command = ["pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", CONTRACT, "-k", NAME]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": python_path(site)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


@pytest.mark.slow  # installs a package
def test_it_has_an_estimator(site):
    code = """
import numpy as np, sibling
fitted = sibling.ShrunkenMeans(strength=2.0).fit({"a": [[0.0]] * 2, "b": [[0.0]] * 3},
                                                 {"a": [1.0, 3.0], "b": [5.0, 6.0, 7.0]})
print(*(fitted.predict({task: [[0.0]]})[task][0] for task in "ab"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": python_path(site)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # by hand: the means are 2 and 6, and 4 over the tasks
    assert [*map(float, done.stdout.split())] == [(4 + 8) / 4, (18 + 8) / 5]


@pytest.mark.slow
def test_the_service_trains_it_and_the_pages_show_it(site, start_service):
    from sibling import Client

    service = start_service(SIBLING_WORKER_SLOTS=1, is_forked=False, PYTHONPATH=python_path(site))
    rng = np.random.default_rng(0)
    X = {task: rng.normal(size=(8, 2)) for task in ("a", "b")}
    y = {task: rng.normal(size=8) for task in X}
    with Client(service.url) as client:
        assert NAME in [one["name"] for one in client.algorithms()]
        dataset = client.upload(X, y, name="two tasks")
        suitable = [one["algorithm"] for one in client.preview(dataset)["algorithms"]]
        assert NAME in suitable
        model = client.train(dataset, NAME, model="means", strength=4.0, evaluate=True).wait()
        found = model.predict(X["a"], task="a")
        assert {"scores", "predictions", "residuals"} <= {one["name"] for one in model.plots()}
        job = model.info["lineage"]["job_id"]
    explanation = "Number of rows that the shared mean counts as"
    form = f"/jobs/new?dataset={dataset.id}&algorithm={NAME}"
    said = [
        ("/algorithms", "Shrunken means"),
        (f"/algorithms/{NAME}", explanation),
        (f"/datasets/{dataset.id}", f"algorithm={NAME}"),
        (form, 'data-path="/params/strength"'),
        (form, explanation),
        (f"/jobs/{job}", "strength"),
        ("/models/means/1", "Predicted against true"),
    ]
    for path, text in said:
        page = httpx.get(f"{service.url}{path}", timeout=240)
        assert page.status_code == 200
        assert text in html.unescape(page.text), path
    shared = (y["a"].mean() + y["b"].mean()) / 2
    assert np.allclose(found, (8 * y["a"].mean() + 4 * shared) / 12, rtol=1e-12)
    assert model.info["lineage"]["software"]["sibling-shrunken-means"] == "1.0"


def install(folder, name, value, package="broken"):
    """Write what an installed package with one entry point leaves behind."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[sibling.algorithms]\n{name} = {value}\n")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("mine", "no_such_module:Mine", "cannot be imported"),
        ("mine", "math:pi", "not a subclass of Algorithm"),
        ("mine", "algorithms.interface.algorithm:Algorithm", "cannot be created"),
        ("mine", "algorithms.baselines.constant:Constant", "calls itself 'constant'"),
        ("My_Own", "algorithms.baselines.constant:Constant", "lower-case letters"),
        ("ridge", "algorithms.baselines.constant:Constant", "the name is taken"),
    ],
)
def test_a_broken_package_is_named_with_what_to_do(tmp_path, monkeypatch, name, value, problem):
    install(tmp_path, name, value)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidExtension, match=problem) as raised:
        load_extensions(taken=["ridge"])
    assert "package broken 1.0" in str(raised.value)
    assert "uninstall" in str(raised.value)


def test_two_packages_with_the_same_name_are_told(tmp_path, monkeypatch):
    for package in ("first", "second"):
        install(tmp_path, "constant", "algorithms.baselines.constant:Constant", package)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidExtension, match="the name is taken"):
        load_extensions(taken=[])
