"""The runner of the benchmarks, and the pages that are made of their kept results."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss

from benchmarks import peers
from benchmarks.harness import page, results
from benchmarks.harness.benchmark import Benchmark
from benchmarks.harness.catalogue import BENCHMARKS
from benchmarks.harness.context import Context
from benchmarks.harness.headlines import HEADLINES
from benchmarks.harness.markdown import cell_text
from benchmarks.harness.regressions import regressions
from benchmarks.harness.results import Kept, Machine, Problem, Run, Table
from benchmarks.harness.runner import run

ROOT = Path(__file__).parents[2]
CHEAP = ("estimator_overhead", "selection_folds")
NUMBER = re.compile(r"(?<![\w.,])[\d,]*\.?\d+")
#: Programs that a benchmark starts.
STARTED = {"__main__", "fit_child", "gpy_peer", "peer_methods"}

pytestmark = pytest.mark.slow  # draws every page


@pytest.fixture(scope="module")
def generated():
    """Every page and every plot by its name."""
    return page.pages()


def test_the_pages_and_their_plots_are_those_of_the_kept_results(generated):
    for name, text in generated.items():
        path = page.DOCS / name
        assert path.exists(), f"docs/{name} is missing; run `make docs`"
        is_same = path.read_text(encoding="utf-8") == text
        assert is_same, f"docs/{name} is out of date; run `make docs`"
    folders = ("benchmarks", "images/benchmarks")
    assert {
        f"{folder}/{path.name}" for folder in folders for path in (page.DOCS / folder).iterdir()
    } == generated.keys()


@pytest.mark.parametrize("name", HEADLINES)
def test_the_numbers_of_a_headline_are_those_of_the_result(name):
    shown = "\n".join(page.section(BENCHMARKS[name], results.load(name)))
    numbers = set(NUMBER.findall(HEADLINES[name]))
    assert numbers
    assert numbers <= set(NUMBER.findall(shown))


def test_every_benchmark_has_its_section_on_one_page(generated):
    headings = [
        line
        for name, text in generated.items()
        if name.startswith("benchmarks/")
        for line in text.splitlines()
        if line.startswith("## ")
    ]
    assert headings == [f"## {one.title}" for one in BENCHMARKS.values()]


def test_every_benchmark_and_every_result_is_in_the_catalogue():
    programs = {
        path.stem
        for path in (ROOT / "benchmarks").glob("*.py")
        if re.search(r"(?m)^def run\(context|^if __name__ ==", path.read_text(encoding="utf-8"))
    }
    assert programs - STARTED == {one.path.stem for one in BENCHMARKS.values()}
    assert {path.stem for path in results.RESULTS.iterdir()} <= BENCHMARKS.keys()


def test_no_page_or_result_names_a_folder_of_the_machine(generated):
    texts = [text for name, text in generated.items() if name.endswith(".md")]
    texts += [path.read_text(encoding="utf-8") for path in results.RESULTS.iterdir()]
    assert not any(str(ROOT) in text or "/tmp/" in text for text in texts)


def _run(command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_runs_cheap_benchmarks_in_their_quick_form_and_prints_their_tables():
    command = [sys.executable, "-m", "benchmarks", *CHEAP, "--quick"]
    before = {path: path.read_bytes() for path in results.RESULTS.iterdir()}
    done = _run(command)
    assert done.returncode == 0, done.stderr
    for name in CHEAP:
        assert f"# {BENCHMARKS[name].title} (python -m benchmarks {name} --quick)" in done.stdout
        assert re.search(rf"(?m)^{name}: \d+ s, \d claims not confirmed, 0 worse$", done.stdout)
    assert "| estimator | algorithm, ms | added, ms |" in done.stdout
    # without --keep, nothing is stored
    assert {path: path.read_bytes() for path in results.RESULTS.iterdir()} == before


def test_an_unknown_benchmark_is_refused_with_the_known_ones():
    command = [sys.executable, "-m", "benchmarks", "imports"]
    done = _run(command)
    assert done.returncode == 2
    assert "no benchmark imports; there are mtda_speed, " in done.stderr


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_script_has_the_options_with_which_it_is_called(name):
    one = BENCHMARKS[name]
    text = one.path.read_text(encoding="utf-8")
    if "\ndef run(context: Context)" in text:
        return
    given = {word for word in (*one.full, *(one.quick or ())) if word.startswith("--")}
    given |= {"--data"} if one.needs_data else set()
    defined = set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', text))
    assert given <= defined


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_can_be_imported_but_for_its_peers(name):
    if name == "rmtpca_vs_pymanopt":
        pytest.importorskip("pymanopt")
    importlib.import_module(f"benchmarks.{BENCHMARKS[name].path.stem}")


def test_a_script_that_is_called_wrongly_has_no_result(monkeypatch):
    monkeypatch.delitem(sys.modules, "benchmarks.gmtl_digits", raising=False)
    wrong = Benchmark("gmtl_digits", "any", quick=("--no-such-option",))
    with pytest.raises(RuntimeError, match="does not take"):
        wrong.run(Context(is_quick=True, data=None))


def test_a_benchmark_without_its_data_is_skipped_with_the_reason():
    found = run(BENCHMARKS["mtda_speed"], "quick", None)
    assert isinstance(found, Problem)
    assert found.reason == "skipped: needs datasets; name their folder with --data FOLDER"
    found = run(BENCHMARKS["mtda_speed"], "quick", ROOT)
    assert found.reason.startswith("skipped: the folder of --data has no orl_32x32.npz")


def test_a_benchmark_that_takes_too_long_is_ended():
    hasty = Benchmark("import_time", "Time of imports", quick_limit_s=0.05)
    assert run(hasty, "quick", None).reason == "took longer than 0.05 s"


def test_a_run_has_its_machine_and_versions_but_no_name_of_the_machine():
    found = run(BENCHMARKS["import_time"], "quick", None)
    assert isinstance(found, Run)
    assert found.command == "python -m benchmarks import_time --quick"
    assert found.machine.n_cores >= 1
    assert {"python", "numpy", "sibling"} <= found.versions.keys()
    assert os.uname().nodename not in found.model_dump_json()


def made_run(milliseconds, *, speed=10.0, processor="x"):
    table = Table(
        columns=("what", "ms", "calls/s", "n"),
        rows=(("a", milliseconds, speed, 1), ("b", 5.0, None, 100)),
        lower_is_better=("ms",),
        higher_is_better=("calls/s",),
    )
    machine = Machine(processor=processor, n_cores=2, memory_gib=8, load=0.0)
    return Run(command="c", date="2026-01-02", machine=machine, blocks=(table,))


def test_numbers_more_than_a_fifth_worse_than_in_the_run_before_are_regressions():
    assert regressions((made_run(11.9), made_run(10.0))) == []
    (worse,) = regressions((made_run(12.1), made_run(10.0)))
    assert str(worse) == "a: ms 10 before, 12.1 now, 1.21 times"
    (worse,) = regressions((made_run(10.0, speed=7.9), made_run(10.0)))
    assert worse.column == "calls/s"
    assert regressions((made_run(1.0, speed=90.0), made_run(10.0))) == []
    assert regressions((made_run(99.0, processor="y"), made_run(10.0))) == []
    assert regressions((made_run(99.0),)) == []


def test_the_two_newest_runs_are_kept_and_survive_storage(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    kept = Kept(problem=Problem(form="full", date="2026-01-01", reason="failed"))
    for milliseconds in (1.0, 2.0, 3.0):
        kept = kept.with_run("full", made_run(milliseconds))
    kept = kept.with_run("quick", made_run(4.0))
    results.save("name", kept)
    assert results.load("name") == kept
    assert kept.full == (made_run(3.0), made_run(2.0))
    assert kept.shown == ("full", made_run(3.0))
    assert kept.problem is None


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"),
        ("a", "a"),
        (12345, "12,345"),
        (0.12345, "0.123"),
        (12.0, "12.0"),
        (0.0, "0"),
        (123.4, "123"),
        (5432.1, "5,432"),
        (1.2e-5, "1.2e-05"),
    ],
)
def test_cells_have_three_significant_digits(cell, text):
    assert cell_text(cell) == text


def test_scores_of_probabilities_are_means_over_tasks():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=40)
    y, task = rng.integers(0, 3, size=40), np.repeat([0, 1], [10, 30])
    case = {"task": np.array([0, 1]), "task_new": task, "y": y, "y_new": y}
    parts = [(p[task == t], y[task == t]) for t in (0, 1)]
    found = peers.scores_of(p, case)
    expected = np.mean([log_loss(own, q, labels=[0, 1, 2]) for q, own in parts])
    assert found[peers.LOG_LOSS] == pytest.approx(expected, rel=1e-3)
    brier = np.mean([((q - np.eye(3)[own]) ** 2).sum(axis=1).mean() for q, own in parts])
    assert found[peers.BRIER] == pytest.approx(brier, rel=1e-3)
