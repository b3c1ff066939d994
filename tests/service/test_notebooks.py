"""The notebooks of the documentation run without an error, and the tutorials are what they show."""

import re
import runpy
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa

from algorithms.registry import ALGORITHMS

pytestmark = pytest.mark.slow  # runs every notebook

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
TUTORIALS = runpy.run_path(str(FOLDER / "render.py"))
NOTEBOOKS = TUTORIALS["names"]()
SVG = "{http://www.w3.org/2000/svg}"
#: A fit without iterations of note has fewer plots.
MIN_PICTURES = {"auto": 2, "in_use": 1}


@pytest.fixture(scope="module")
def executed(service):
    """The cells of each notebook after all ran, one after the other in one kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIBLING_URL", service.url)
        folder = Path(sa.make_url(service.database_url).database).parent
        patch.setenv("SIBLING_DATA_DIR", str(folder))
        return TUTORIALS["execute"](NOTEBOOKS)


def test_every_algorithm_of_a_paper_has_a_notebook():
    papers = {"mtda", "fmtl", "mtfl", "tlvm", "rmt-pca"}
    assert papers <= ALGORITHMS.keys()
    assert {name.replace("-", "") for name in papers} | {"auto", "in_use"} == set(NOTEBOOKS)


def test_coordinates_of_pictures_are_shortened_and_texts_are_not():
    picture = (
        '<g><path aria-label="49.5213" d="M1.23456,2.5L3,4"/><text x="1.999">49.5213</text></g>'
    )
    short = '<g><path aria-label="49.5213" d="M1.23,2.5L3,4"/><text x="1.99">49.5213</text></g>'
    assert TUTORIALS["shorten"](picture) == short


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_pictures(executed, name):
    code = [cell for cell in executed[name] if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    outputs = [output for cell in code for output in cell.outputs]
    shown = [output.data for output in outputs if output.output_type == "execute_result"]
    charts = [ET.fromstring(data["image/svg+xml"]) for data in shown if "image/svg+xml" in data]
    assert len(charts) >= MIN_PICTURES.get(name, 3)
    for chart in charts:
        groups = [one for one in chart.iter(f"{SVG}g") if "role-mark" in one.get("class", "")]
        marks = [mark for group in groups for mark in group.iter(f"{SVG}path")]
        assert len(marks) >= 2
    plotted = [cell for cell in code if TUTORIALS["_PLOT"].search(cell.source)]
    assert len(plotted) == len(charts)  # no cell hides its picture
    texts = " ".join(cell.source for cell in executed[name] if cell.cell_type == "markdown")
    assert "## When not to use it" in texts
    assert "Look for" in texts
    # figures in the text are those that the run prints or shows
    printed = [output.text for output in outputs if output.output_type == "stream"]
    seen = " ".join([*printed, *(data.get("image/svg+xml", "") for data in shown)])
    for figure in re.findall(r"\b\d+\.\d+\b", texts):
        assert figure in seen
    # every picture follows a text
    for before, cell in pairwise(executed[name]):
        if cell.cell_type == "code" and ".plot(" in cell.source:
            assert before.cell_type == "markdown" or ".plot(" in before.source


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_tutorial_is_its_notebook_as_it_was_run(executed, name):
    page, pictures = TUTORIALS["render"](name, executed[name])
    kept = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert _rounded(kept) == _rounded(page), f"run `make tutorials`: {name}.md is out of date"
    folder = FOLDER / TUTORIALS["PICTURES"]
    assert {path.name for path in folder.glob(f"{name}-*")} == pictures.keys()
    for file in pictures:
        assert _titles(folder / file)


def _rounded(text):
    """Return a text without its numbers, which can differ between machines in the last digit."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "#", text))


def _titles(path):
    return TUTORIALS["alternative_text"](path.read_text(encoding="utf-8"))
