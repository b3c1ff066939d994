"""Groups of functions: starts, and moves between groups that lower the penalty."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from algorithms.baselines.gmtl.penalty import Groups, trace_norm
from algorithms.numerics.arrays import Array

#: A move must lower the penalty by this share, and be better than earlier moves by as much, so
#: that rounding does not choose between moves that are equal.
_MIN_GAIN = 1e-9
_DECIMALS = 9


def starts(
    W: Array, order: Groups, *, n_groups: int, n_starts: int, rng: np.random.Generator
) -> Iterator[Groups]:
    """Yield the groups (T,) of each start, numbered by their first member in ``order``.

    The first has Ward's clusters of the subspaces of the functions, the second Ward's
    clusters of the functions themselves; the others are random.

    Parameters
    ----------
    W : (T, d)
        Functions that were learned as one group.
    order : (T,)
        Positions of the functions in an order that does not depend on the order of the tasks.
    """
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    directions = np.divide(W, lengths, out=np.zeros_like(W), where=lengths > 0)[order]
    # rounding errors must not choose between equal subspaces
    outer = np.einsum("td,te->tde", directions, directions).reshape(len(W), -1).round(_DECIMALS)
    seen: set[bytes] = set()
    for which in range(n_starts):
        if which < 2:
            rows = outer if which == 0 else W[order]
            tree = linkage(rows, method="ward")
            labels: NDArray[Any] = fcluster(tree, n_groups, criterion="maxclust")
        else:
            labels = rng.integers(n_groups, size=len(W))
        groups = np.empty(len(W), dtype=np.intp)
        groups[order] = numbered(labels)
        if groups.tobytes() not in seen:
            seen.add(groups.tobytes())
            yield groups


def numbered(labels: NDArray[Any]) -> Groups:
    """Return labels numbered by their first occurrence."""
    number = {label: i for i, label in enumerate(dict.fromkeys(labels.tolist()))}
    return np.array([number[label] for label in labels.tolist()], dtype=np.intp)


def improved(W: Array, groups: Groups, *, n_groups: int) -> Groups:
    """Return the groups after moves of single functions, each the best one, while one helps."""
    groups = groups.copy()
    norms = {g: trace_norm(W[groups == g]) for g in range(n_groups)}
    while True:
        total = sum(norm**2 for norm in norms.values())
        best: tuple[float, int, int, float, float] | None = None
        for t in range(len(W)):
            g = int(groups[t])
            members = groups == g
            members[t] = False
            without = trace_norm(W[members])
            for h in range(n_groups):
                if h == g:
                    continue
                joined = groups == h
                joined[t] = True
                with_t = trace_norm(W[joined])
                change = without**2 + with_t**2 - norms[g] ** 2 - norms[h] ** 2
                least = 0.0 if best is None else best[0]
                if change < least - _MIN_GAIN * total:
                    best = change, t, h, without, with_t
        if best is None:
            return groups
        _, t, h, without, with_t = best
        norms[int(groups[t])], norms[h] = without, with_t
        groups[t] = h
