"""The notebooks of the documentation run without an error and show pictures."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

from algorithms.registry import ALGORITHMS

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.py"))
SVG = "{http://www.w3.org/2000/svg}"
TIMEOUT_S = 240


@pytest.fixture(scope="module")
def executed():
    """The cells of each notebook after all ran, one after the other in one kernel."""
    # the default shows charts by scripts from another site
    first = nbformat.v4.new_code_cell("import altair; altair.renderers.enable('svg')")
    cells = {}
    for name in NOTEBOOKS:
        read = jupytext.read(FOLDER / f"{name}.py", fmt="py:percent")
        # a notebook must not use names that another one has defined
        cells[name] = [nbformat.v4.new_code_cell("%reset -f"), *read.cells]
    joined = nbformat.v4.new_notebook(cells=[cell for own in cells.values() for cell in own])
    joined.cells.insert(0, first)
    NotebookClient(joined, timeout=TIMEOUT_S, kernel_name="python3", allow_errors=True).execute()
    return cells


def test_every_algorithm_of_a_paper_has_a_notebook():
    papers = {"mtda", "fmtl", "mtfl", "tlvm", "rmt-pca"}
    assert papers <= ALGORITHMS.keys()
    assert {name.replace("-", "") for name in papers} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_pictures(executed, name):
    code = [cell for cell in executed[name] if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    outputs = [output for cell in code for output in cell.outputs]
    errors = [output for output in outputs if output.output_type == "error"]
    assert not errors, errors[0].evalue
    shown = [output.data for output in outputs if output.output_type == "execute_result"]
    charts = [ET.fromstring(data["image/svg+xml"]) for data in shown if "image/svg+xml" in data]
    assert len(charts) >= 3
    for chart in charts:
        groups = [one for one in chart.iter(f"{SVG}g") if "role-mark" in one.get("class", "")]
        marks = [mark for group in groups for mark in group.iter(f"{SVG}path")]
        assert len(marks) >= 2
    plotted = [cell for cell in code if ".plot(" in cell.source]
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
    cells = executed[name][1:]
    for before, cell in pairwise(cells):
        if cell.cell_type == "code" and ".plot(" in cell.source:
            assert before.cell_type == "markdown" or ".plot(" in before.source
