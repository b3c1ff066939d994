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
        The strongest pair, the sparsity and the loneliest output, in words.
    """

    names: tuple[str, ...]
    strength: Array
    order: tuple[int, ...]
    sparsity: float
    sentence: str


def read_relations(G: Array, names: Sequence[str]) -> Relations:
    """Give the relations of outputs with these names from a positive semidefinite G (T, T)."""
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
    if not pairs.max() > 0:
        sentence = f"No two of the {T} outputs are related."
        return Relations(names, strength, tuple(range(T)), sparsity, sentence)
    distance = 1.0 - size
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=T <= 500)
    a, b = (int(i) for i in np.unravel_index(int(size.argmax()), size.shape))
    lone = int(size.max(axis=1).argmin())
    sentence = (
        f"'{names[a]}' and '{names[b]}' are tied most closely ({strength[a, b]:+.2f}); "
        f"{sparsity:.0%} of the {len(pairs)} pairs are nearly unrelated "
        f"(below {NEARLY_ZERO:g}); '{names[lone]}' stands most alone "
        f"(its strongest tie is {size[lone].max():.2f})."
    )
    order = tuple(int(i) for i in leaves_list(tree))
    return Relations(names, strength, order, sparsity, sentence)
