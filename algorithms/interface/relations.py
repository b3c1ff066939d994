"""Relations between the tasks of a model: their strengths, and a summary in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.numerics.arrays import Array

#: Relations below this strength count as unrelated.
NEARLY_ZERO = 0.05
#: Smallest strength of strong and moderate relations.
STRONG = 0.7
MODERATE = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """Relations between the outputs of a model, computed from their Gram matrix G.

    A task has one output, or one for each class.

    Parameters
    ----------
    names
        Names of the outputs: the task, or task and class.
    strength : (T, T)
        G_rs / √(G_rr G_ss), from -1 to 1; 0 for an output with G_rr = 0.
    order
        Positions of the outputs, ordered such that related ones are adjacent.
    sparsity
        Share of pairs with absolute strength below 0.05.
    sentence
        The strongest pair, the number of nearly unrelated pairs, and the least related output.
    """

    names: tuple[str, ...]
    strength: Array
    order: tuple[int, ...]
    sparsity: float
    sentence: str


def relations_of(G: Array, names: Sequence[str]) -> Relations:
    """Return the relations of named outputs from a positive semidefinite Gram matrix G (T, T)."""
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
    from scipy.cluster.hierarchy import leaves_list  # noqa: PLC0415 - slow to import

    order = tuple(int(i) for i in leaves_list(cluster(strength)))
    return Relations(names, strength, order, sparsity, sentence)


def cluster(strength: Array) -> Array:
    """Return the tree (T - 1, 4) of outputs by average linkage, as ``scipy`` has it.

    The distance of two outputs is 1 minus the absolute value of their strength (T, T), T > 1.
    """
    from scipy.cluster.hierarchy import linkage  # noqa: PLC0415 - slow to import
    from scipy.spatial.distance import squareform  # noqa: PLC0415

    distance = 1.0 - np.abs(strength)
    np.fill_diagonal(distance, 0.0)
    is_small = len(strength) <= 500
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=is_small)
    return np.asarray(tree)


def _sentence(names: Sequence[str], strength: Array, size: Array) -> str:
    """Return a summary of strengths (T, T) and their absolute values ``size`` (zero diagonal)."""
    pairs = size[np.triu_indices(len(names), 1)]
    a, b = (int(i) for i in np.unravel_index(int(size.argmax()), size.shape))
    pair, value = f"'{names[a]}' and '{names[b]}'", f"{strength[a, b]:+.2f}"
    if size[a, b] < NEARLY_ZERO:
        two = f"{pair} are unrelated"
        more = f"No two of the {len(names)} outputs are related"
        return f"{two if len(names) == 2 else more} (below {NEARLY_ZERO:g})."
    if len(names) == 2:
        sign = "" if strength[a, b] > 0 else ", with opposite signs"
        return f"{pair} are {_degree(size[a, b])} related ({value}{sign})."
    if pairs.min() >= STRONG:
        ends = f"{pairs.min():.2f}", f"{pairs.max():.2f}"
        span = f"{ends[0] if ends[0] == ends[1] else ' to '.join(ends)} in size"
        return f"All {len(names)} outputs are strongly related ({span})."
    parts = [f"{pair} are most strongly related ({value})"]
    n_weak = int(np.sum(pairs < NEARLY_ZERO))
    if n_weak:
        share = f"{n_weak} of the {len(pairs)} pairs"
        parts.append(f"{share} are nearly unrelated (below {NEARLY_ZERO:g})")
    strongest = size.max(axis=1)
    weakest = int(strongest.argmin())
    if f"{strongest[weakest]:.2f}" != f"{size[a, b]:.2f}":
        name, other = names[weakest], names[int(size[weakest].argmax())]
        limit = f"at most {strongest[weakest]:.2f}, with '{other}'"
        related = f"'{name}' is least related to others ({limit})"
        unrelated = f"'{name}' is nearly unrelated to all others"
        parts.append(unrelated if strongest[weakest] < NEARLY_ZERO else related)
    return "; ".join(parts) + "."


def _degree(size: float) -> str:
    return "strongly" if size >= STRONG else "moderately" if size >= MODERATE else "weakly"
