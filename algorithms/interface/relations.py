"""How the tasks of a model are related, for a person to read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

Array = NDArray[np.float64]

#: Relations weaker than this count as none.
NEARLY_ZERO = 0.05
#: From these on they are called strong, and moderate.
STRONG = 0.7
MODERATE = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """A reading of a Gram matrix G of tasks, or of their outputs where a task has several.

    Parameters
    ----------
    names
        Of the outputs: the task, or task and class.
    strength : (T, T)
        G_rs / √(G_rr G_ss), from -1 to 1; 0 where an output has no scale.
    order
        Positions of the outputs such that related ones stand side by side.
    sparsity
        Share of pairs whose strength is below 0.05 in size.
    sentence
        The strongest pair, how many are nearly unrelated, and the least related output, in words.
    """

    names: tuple[str, ...]
    strength: Array
    order: tuple[int, ...]
    sparsity: float
    sentence: str


def read_relations(G: Array, names: Sequence[str]) -> Relations:
    """Return the relations of outputs with these names from a positive semidefinite G (T, T)."""
    T, names = len(names), tuple(names)
    deviation = np.sqrt(np.maximum(np.diag(G), 0.0))
    scale = np.outer(deviation, deviation)
    strength = np.divide(G, scale, out=np.zeros_like(G), where=scale > 0)
    strength = np.clip((strength + strength.T) / 2, -1.0, 1.0)
    if T == 1:
        return Relations(names, strength, (0,), 0.0, f"'{names[0]}' is the only output.")
    size = np.abs(strength - np.diag(np.diag(strength)))
    pairs = size[np.triu_indices(T, 1)]
    sparsity = float(np.mean(pairs < NEARLY_ZERO))
    sentence = _sentence(names, strength, size)
    if not pairs.max() > 0:
        return Relations(names, strength, tuple(range(T)), sparsity, sentence)
    distance = 1.0 - size
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=T <= 500)
    order = tuple(int(i) for i in leaves_list(tree))
    return Relations(names, strength, order, sparsity, sentence)


def _sentence(names: Sequence[str], strength: Array, size: Array) -> str:
    """Return what a person should know first of strengths (T, T) and their sizes, diagonal 0."""
    pairs = size[np.triu_indices(len(names), 1)]
    a, b = (int(i) for i in np.unravel_index(int(size.argmax()), size.shape))
    pair, value = f"'{names[a]}' and '{names[b]}'", f"{strength[a, b]:+.2f}"
    if size[a, b] < NEARLY_ZERO:
        who = f"{pair} are" if len(names) == 2 else f"No two of the {len(names)} outputs are"
        most = "unrelated" if len(names) == 2 else "related"
        limit = f"below {NEARLY_ZERO:g}"
        return f"{who} {most} ({limit})."
    if len(names) == 2:
        sign = "" if strength[a, b] > 0 else ", with opposite signs"
        return f"{pair} are {_degree(size[a, b])} related ({value}{sign})."
    if pairs.min() >= STRONG:
        span = f"{pairs.min():.2f} to {pairs.max():.2f} in size"
        return f"All {len(names)} outputs are strongly related ({span})."
    parts = [f"{pair} are most strongly related ({value})"]
    n_weak = int(np.sum(pairs < NEARLY_ZERO))
    if n_weak:
        share = f"{n_weak} of the {len(pairs)} pairs"
        parts.append(f"{share} are nearly unrelated (below {NEARLY_ZERO:g})")
    strongest = size.max(axis=1)
    lone = int(strongest.argmin())
    if f"{strongest[lone]:.2f}" != f"{size[a, b]:.2f}":
        other = names[int(size[lone].argmax())]
        found = f"'{names[lone]}' is related least (at most {strongest[lone]:.2f}, to '{other}')"
        alone = f"'{names[lone]}' is nearly unrelated to all others"
        parts.append(alone if strongest[lone] < NEARLY_ZERO else found)
    return "; ".join(parts) + "."


def _degree(size: float) -> str:
    return "strongly" if size >= STRONG else "moderately" if size >= MODERATE else "weakly"
