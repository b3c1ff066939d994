"""Relations of tasks as an SVG image."""

import re
from typing import Final
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.relations import Relations

#: Approximate side of the matrix, and maximum side of a cell, in pixels.
_SIDE: Final = 600
_MAX_CELL: Final = 28
#: Maximum number of outputs with labels.
_MAX_LABELLED: Final = 60
#: Maximum number of cells per side; larger matrices are averaged in blocks.
_MAX_CELLS: Final = 600
_MAX_LETTERS: Final = 24
#: Width of a letter and height of a line, in pixels.
_LETTER_WIDTH: Final = 6.6
_LINE: Final = 16
#: Colours of -1, 0 and 1; distinguishable with colour blindness.
_COLOURS: Final = ((33, 102, 172), (247, 247, 247), (178, 24, 43))
#: Characters that XML does not allow, even as references.
_XML_INVALID: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Number of colours on each side of 0.
_STEPS: Final = 16


def draw(relations: Relations) -> str:
    """Return an SVG of the strengths from -1 (blue) to 1 (red), with related outputs adjacent."""
    order = list(relations.order)
    names = [_short(relations.names[i]) for i in order]
    strength = _downsampled(relations.strength[np.ix_(order, order)])
    cell = max(min(_SIDE // len(strength), _MAX_CELL), 2)
    is_named = len(order) <= _MAX_LABELLED
    left = 8 + (int(max(map(len, names)) * _LETTER_WIDTH) + 6 if is_named else 0)
    side = cell * len(strength)
    lines = relations.sentence.split("; ")
    words = max(len(line) for line in lines) * _LETTER_WIDTH
    width, height = int(left + max(side, words, 220) + 14), side + 72 + _LINE * len(lines)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-size="12">',
        "<style>text { font-family: sans-serif }</style>",
        f"<title>{_text(relations.sentence)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<g transform="translate({left} 8) scale({cell})" shape-rendering="crispEdges">',
        *_cells(strength),
        "</g>",
    ]
    if is_named:
        parts += [
            f'<text x="{left - 6}" y="{8 + cell * (i + 0.5) + 4}" text-anchor="end">{name}</text>'
            for i, name in enumerate(map(_text, names))
        ]
    parts += _scale(left, side + 20)
    parts += [
        f'<text x="{left}" y="{side + 72 + _LINE * i}">{_text(line)}</text>'
        for i, line in enumerate(lines)
    ]
    return "\n".join([*parts, "</svg>\n"])


def _downsampled(strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return block means, with at most ``_MAX_CELLS`` cells per side."""
    n = len(strength)
    if n <= _MAX_CELLS:
        return strength
    starts = np.linspace(0, n, _MAX_CELLS, endpoint=False).astype(int)
    sizes = np.diff(starts, append=n)
    sums = np.add.reduceat(np.add.reduceat(strength, starts, axis=0), starts, axis=1)
    return np.asarray(sums / np.outer(sizes, sizes))


def _cells(strength: NDArray[np.float64]) -> list[str]:
    """Return the cells as squares of side 1, one path for each colour."""
    level = np.rint(strength * _STEPS).astype(int)
    paths = []
    for one in np.unique(level):
        squares = "".join(f"M{j} {i}h1v1h-1z" for i, j in np.argwhere(level == one))
        paths.append(f'<path fill="{_colour(one / _STEPS)}" d="{squares}"/>')
    return paths


def _scale(x: int, y: int) -> list[str]:
    """Return the colour scale."""
    values = np.arange(-_STEPS, _STEPS + 1) / _STEPS
    step = 6
    bars = [
        f'<rect x="{x + step * i}" y="{y}" width="{step}" height="12" fill="{_colour(value)}"/>'
        for i, value in enumerate(values)
    ]
    ticks = [
        f'<text x="{x + step * (_STEPS * (1 + at) + 0.5)}" y="{y + 28}" '
        f'text-anchor="middle">{at}</text>'
        for at in (-1, 0, 1)
    ]
    return bars + ticks


def _colour(value: float) -> str:
    low, middle, high = (np.array(colour) for colour in _COLOURS)
    end = high if value > 0 else low
    return "#" + "".join(f"{round(c):02x}" for c in middle + abs(value) * (end - middle))


def _short(name: str) -> str:
    return name if len(name) <= _MAX_LETTERS else name[: _MAX_LETTERS - 1] + "…"


def _text(words: str) -> str:
    return escape(_XML_INVALID.sub("\N{REPLACEMENT CHARACTER}", words))
