"""``make tutorials``: runs the notebooks of docs/notebooks, and writes them as pages with pictures.

Each page of this folder is a notebook as it was run: its text, its code, what the code printed, and
its pictures. Pictures are files of SVG in the folder `pictures`; their alternative texts are the
titles and subtitles of the charts. The notebooks `auto` and `in_use` need a service at
`SIBLING_URL`; `in_use` also its folder in `SIBLING_DATA_DIR`.
"""

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import jupytext
import nbformat
from nbclient import NotebookClient

HERE: Final = Path(__file__).parent
NOTEBOOKS: Final = HERE.parent / "notebooks"
PICTURES: Final = "pictures"
TIMEOUT_S: Final = 240
_NOTE: Final = "<!-- Made by `make tutorials` from docs/notebooks/{name}.py; change that. -->"
_SVG: Final = "{http://www.w3.org/2000/svg}"
_MIME: Final = "image/svg+xml"
#: What draws a picture, and its name: a plot, or the table of a chart.
_PLOT: Final = re.compile(r"(?:\.plot\(\s*\"|alt\.Chart\()(\w+)")
#: Attributes with coordinates, and digits after the point that no eye sees. Texts keep theirs.
_COORDINATES: Final = re.compile(r'(?<! aria-label)="[^"]*"')
_TOO_EXACT: Final = re.compile(r"(\d\.\d\d)\d+")


def names() -> list[str]:
    """Return the names of the notebooks."""
    return sorted(path.stem for path in NOTEBOOKS.glob("*.py"))


def execute(names: Sequence[str]) -> dict[str, list[Any]]:
    """Run notebooks, one after the other in one kernel, and return the cells of each."""
    # the default shows charts by scripts from another site
    first = nbformat.v4.new_code_cell("import altair; altair.renderers.enable('svg')")
    cells = {}
    for name in names:
        read = jupytext.read(NOTEBOOKS / f"{name}.py", fmt="py:percent")
        # a notebook must not use names that another one has defined
        cells[name] = [nbformat.v4.new_code_cell("%reset -f"), *read.cells]
    joined = nbformat.v4.new_notebook(
        cells=[first, *(cell for own in cells.values() for cell in own)]
    )
    NotebookClient(joined, timeout=TIMEOUT_S, kernel_name="python3").execute()
    return {name: own[1:] for name, own in cells.items()}


def render(name: str, cells: Sequence[Any]) -> tuple[str, dict[str, str]]:
    """Return the page of a notebook that was run, and its pictures by their file names."""
    pictures: dict[str, str] = {}
    parts = [_NOTE.format(name=name)]
    for cell in cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source.strip())
        else:
            parts.append(f"```python\n{cell.source}\n```")
            parts += _outputs(name, cell, pictures)
    return "\n\n".join(parts) + "\n", pictures


def _outputs(name: str, cell: Any, pictures: dict[str, str]) -> Iterator[str]:
    """Yield the outputs of a cell in Markdown, and add its pictures."""
    printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    if printed:
        yield f"```text\n{printed.rstrip()}\n```"
    for output in cell.outputs:
        picture = output.get("data", {}).get(_MIME)
        if picture is not None:
            file = _file_name(name, cell, pictures)
            pictures[file] = shorten(picture)
            yield f"![{alternative_text(picture)}]({PICTURES}/{file})"


def shorten(picture: str) -> str:
    """Return a picture with two digits after the point in its coordinates."""
    return _COORDINATES.sub(lambda found: _TOO_EXACT.sub(r"\1", found[0]), picture)


def _file_name(name: str, cell: Any, pictures: dict[str, str]) -> str:
    found = _PLOT.search(cell.source)
    assert found is not None
    same = sum(file.startswith(f"{name}-{found[1]}") for file in pictures)
    return f"{name}-{found[1]}{f'-{same + 1}' if same else ''}.svg"


def alternative_text(picture: str) -> str:
    """Return the title and the subtitle of a chart as one line."""
    root = ET.fromstring(picture)
    *_panels, title = _texts(root, "role-title-text")
    *_, subtitle = _texts(root, "role-title-subtitle")
    return f"{title}. {subtitle}".replace("[", "(").replace("]", ")")


def _texts(root: ET.Element, role: str) -> Iterator[str]:
    for group in root.iter(f"{_SVG}g"):
        if role in group.get("class", "").split():
            for text in group.iter(f"{_SVG}text"):
                lines = [line.text or "" for line in text.iter(f"{_SVG}tspan")]
                yield " ".join(lines) if lines else text.text or ""


def main(chosen: Sequence[str]) -> None:
    """Write the pages and pictures of the chosen notebooks; all of them by default."""
    (HERE / PICTURES).mkdir(exist_ok=True)
    for name, cells in execute(chosen or names()).items():
        page, pictures = render(name, cells)
        (HERE / f"{name}.md").write_text(page, encoding="utf-8")
        for old in (HERE / PICTURES).glob(f"{name}-*.svg"):
            old.unlink()
        for file, picture in pictures.items():
            (HERE / PICTURES / file).write_text(picture + "\n", encoding="utf-8")
        sys.stdout.write(f"docs/tutorials/{name}.md\n")


if __name__ == "__main__":
    main(sys.argv[1:])
