"""Relations between the tasks: a heat map ordered by clustering, with the dendrogram."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from algorithms.interface.relations import Relations, cluster
from algorithms.numerics.arrays import Array
from sibling.plots.source import MAX_NAMES, Content, Plot, Row, Source
from sibling.plots.style import DIVERGING, NEUTRAL

#: Approximate side of the heat map, and largest side of a cell, in pixels.
_SIDE: Final = 480
_MAX_CELL: Final = 40
#: Strengths this close are equal.
_ROUNDING: Final = 1e-9


def describe(source: Source) -> Content | None:
    """Return the strengths of all pairs of outputs, or of clusters where there are many."""
    relations = None if source.model is None else source.model.relations()
    if relations is None or len(relations.names) == 1 or _is_given(relations.strength):
        return None
    tree = cluster(relations.strength)
    groups, upper = _cut(tree, relations.order, MAX_NAMES)
    names = [_name(relations, group) for group in groups]
    strength = _means(relations.strength, groups)
    cells = [
        {"row": names[i], "column": names[j], "strength": float(strength[i, j])}
        for i in range(len(names))
        for j in range(len(names))
    ]
    cut = (
        f"The {len(relations.names):,} outputs are cut into {len(groups)} clusters; a cell is the "
        "mean strength of the pairs of two clusters."
    )
    return Content(
        {"cells": cells, "branches": _branches(upper, len(groups))},
        relations.sentence,
        (cut,) if len(groups) < len(relations.names) else (),
        {"names": names, "height": float(tree[-1, 2])},
    )


def _is_given(strength: Array) -> bool:
    """Return whether all pairs are equally related, as in a model with one common part.

    Then there is nothing to see; pairs of unrelated outputs are a finding.
    """
    pairs = strength[~np.eye(len(strength), dtype=bool)]
    return bool(len(pairs) > 2 and np.ptp(pairs) < _ROUNDING < abs(pairs[0]))


def draw(content: Content) -> Any:
    """Return the dendrogram above the heat map."""
    import altair as alt

    names: list[str] = content.options["names"]
    side = len(names) * max(min(_SIDE // len(names), _MAX_CELL), 6)
    scale = alt.Scale(domain=[-1, 0, 1], range=list(DIVERGING))
    cells = (
        alt.Chart(alt.NamedData("cells"))
        .mark_rect()
        .encode(
            x=alt.X("column:N", sort=names, title=None, axis=alt.Axis(labelAngle=-90)),
            y=alt.Y("row:N", sort=names, title=None),
            color=alt.Color("strength:Q", scale=scale, title="Strength, -1 to 1"),
            tooltip=["row:N", "column:N", alt.Tooltip("strength:Q", format="+.3f")],
        )
        .properties(width=side, height=side)
    )
    position = alt.Scale(domain=[0, len(names)], nice=False)
    height = alt.Scale(domain=[0, max(content.options["height"], 1e-9)])
    branches = (
        alt.Chart(alt.NamedData("branches"))
        .mark_line(color=NEUTRAL, strokeWidth=1.5)
        .encode(
            x=alt.X("position:Q", scale=position, axis=None),
            y=alt.Y("distance:Q", scale=height, title=["1 minus", "|strength|"]),
            detail="merge:N",
            order="order:Q",
        )
        .properties(width=side, height=70)
    )
    return alt.vconcat(branches, cells, spacing=4)


def _cut(tree: Array, order: Sequence[int], limit: int) -> tuple[list[list[int]], Array]:
    """Return at most ``limit`` clusters, in the order of their outputs, and the tree above them.

    The leaves of that tree are the positions of the clusters.
    """
    T = len(tree) + 1
    n_groups = min(T, limit)
    members: dict[int, list[int]] = {i: [i] for i in range(T)}
    for merge in range(T - n_groups):
        a, b = int(tree[merge, 0]), int(tree[merge, 1])
        members[T + merge] = members.pop(a) + members.pop(b)
    rank = {output: position for position, output in enumerate(order)}
    roots = sorted(members, key=lambda root: min(rank[i] for i in members[root]))
    new = {root: position for position, root in enumerate(roots)}
    upper = tree[T - n_groups :].copy()
    for merge in range(len(upper)):
        upper[merge, :2] = [new[int(node)] for node in upper[merge, :2]]
        new[T + (T - n_groups) + merge] = n_groups + merge
    return [sorted(members[root], key=rank.__getitem__) for root in roots], upper


def _branches(tree: Array, n_leaves: int) -> list[Row]:
    """Return the points of the line that the dendrogram has for each merge."""
    place = {i: (i + 0.5, 0.0) for i in range(n_leaves)}
    rows: list[Row] = []
    for merge, (a, b, height, _) in enumerate(tree.tolist()):
        (left, left_height), (right, right_height) = place[int(a)], place[int(b)]
        corners = ((left, left_height), (left, height), (right, height), (right, right_height))
        rows += [
            {"merge": merge, "order": order, "position": position, "distance": distance}
            for order, (position, distance) in enumerate(corners)
        ]
        place[n_leaves + merge] = ((left + right) / 2, height)
    return rows


def _means(strength: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Return the mean strength of the pairs of each two clusters."""
    order = [i for group in groups for i in group]
    sizes = np.array([len(group) for group in groups])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    sums = np.add.reduceat(strength[np.ix_(order, order)], starts, axis=0)
    return np.asarray(np.add.reduceat(sums, starts, axis=1) / np.outer(sizes, sizes))


def _name(relations: Relations, group: Sequence[int]) -> str:
    first = relations.names[group[0]]
    return first if len(group) == 1 else f"{first} and {len(group) - 1} more"


PLOT: Final = Plot("relations", "Relations between the tasks", describe, draw)
