"""Decision trees as arrays, which are checked when loaded and evaluated without LightGBM.

LightGBM parses its text format in C++ and trusts it: files that were changed can end the process.
So a model has arrays instead, and every index in them is checked to be within its bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.arrays import Array

Indices = NDArray[np.int64]

#: Maximum number of positions (rows times trees) that are followed at a time.
MAX_BLOCK_SIZE: Final = 1_000_000
#: Bits of decision_type in LightGBM's text format.
_CATEGORY_BIT: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Binary decision trees.

    Parameters
    ----------
    feature : (n_nodes,)
        Column of each inner node; the column after the last is the category.
    threshold : (n_nodes,)
        Rows go left if their value is at most this.
    children : (n_nodes, 2)
        Left and right child: its position among the inner nodes of the tree, or −1 − the position
        of a leaf. Children come after their parents.
    categories : (n_nodes,)
        Position in ``sets`` for a node on the category, −1 for others.
    node_start, leaf_start : (n_trees + 1,)
        First inner node and first leaf of each tree.
    leaf : (n_leaves,)
        Value of each leaf.
    sets : (n_sets, n_categories)
        1 if rows of a category go left, else 0.
    """

    feature: Indices
    threshold: Array
    children: Indices
    categories: Indices
    node_start: Indices
    leaf: Array
    leaf_start: Indices
    sets: NDArray[np.uint8]

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.node_start) - 1

    def leaf_values(self, rows: Array, category: Indices, trees: slice) -> Array:
        """Return the value of the leaf of each row in each of some trees, (n, n_trees).

        Parameters
        ----------
        rows : (n, d)
        category : (n,)
            Category of each row; −1 for one that no tree knows, which goes right.
        """
        which = np.arange(self.n_trees)[trees]
        size = max(MAX_BLOCK_SIZE // max(len(which), 1), 1)
        blocks = [
            self._leaf_values(rows[i : i + size], category[i : i + size], which)
            for i in range(0, max(len(rows), 1), size)
        ]
        return np.concatenate(blocks)

    def _leaf_values(self, rows: Array, category: Indices, which: Indices) -> Array:
        starts = self.node_start[which]
        has_nodes = self.node_start[which + 1] > starts
        place = np.tile(np.where(has_nodes, 0, -1), (len(rows), 1))
        while True:
            row, tree = np.nonzero(place >= 0)
            if not len(row):
                break
            node = starts[tree] + place[row, tree]
            own_set = self.categories[node]
            is_category = own_set >= 0
            value = rows[row, np.where(is_category, 0, self.feature[node])]
            goes_left = value <= self.threshold[node]
            if is_category.any():
                code = category[row[is_category]]
                in_set = self.sets[own_set[is_category], np.maximum(code, 0)] != 0
                goes_left[is_category] = in_set & (code >= 0)
            place[row, tree] = self.children[node, np.where(goes_left, 0, 1)]
        values: Array = self.leaf[self.leaf_start[which] - 1 - place]
        return values

    def check(self, n_features: int) -> None:
        """Raise ValueError unless every row reaches a leaf without an index out of bounds."""
        self._check_shapes()
        n = len(self.feature)
        for starts, total in ((self.node_start, n), (self.leaf_start, len(self.leaf))):
            is_valid = len(starts) and starts[0] == 0 and starts[-1] == total
            if not is_valid or (np.diff(starts) < 0).any():
                raise ValueError("the first positions of trees are not in order")
        n_nodes, n_leaves = np.diff(self.node_start), np.diff(self.leaf_start)
        if len(n_nodes) != len(n_leaves) or (n_leaves != n_nodes + 1).any():
            raise ValueError("a tree needs one leaf more than it has inner nodes")
        tree = np.repeat(np.arange(self.n_trees), n_nodes)
        place = (np.arange(n) - self.node_start[tree])[:, np.newaxis]
        is_leaf = self.children < 0
        low = np.where(is_leaf, -n_leaves[tree][:, np.newaxis], place + 1)
        high = np.where(is_leaf, -1, n_nodes[tree][:, np.newaxis] - 1)
        if (self.children < low).any() or (self.children > high).any():
            raise ValueError("a child is not a later node or a leaf of its tree")
        on_category = self.categories >= 0
        if (self.categories < -1).any() or (self.categories >= len(self.sets)).any():
            raise ValueError("a set of categories is out of bounds")
        if (self.feature < 0).any() or (self.feature[~on_category] >= n_features).any():
            raise ValueError(f"a node is on another column than the {n_features} of the rows")
        if not (np.isfinite(self.threshold).all() and np.isfinite(self.leaf).all()):
            raise ValueError("a threshold or the value of a leaf is not finite")

    def _check_shapes(self) -> None:
        n = len(self.feature)
        for name in ("feature", "threshold", "children", "categories"):
            shape = getattr(self, name).shape
            if shape != ((n, 2) if name == "children" else (n,)):
                raise ValueError(f"{name} of {n} nodes has shape {shape}")
        for name in ("node_start", "leaf", "leaf_start", "sets"):
            shape = getattr(self, name).shape
            if len(shape) != (2 if name == "sets" else 1):
                raise ValueError(f"{name} has shape {shape}")


def concatenate(forests: Sequence[Forest]) -> Forest:
    """Return all trees of some forests, which have the same categories."""
    sets_before = np.cumsum([0, *(len(forest.sets) for forest in forests)])
    nodes_before = np.cumsum([0, *(len(forest.feature) for forest in forests)])
    leaves_before = np.cumsum([0, *(len(forest.leaf) for forest in forests)])
    categories = [
        np.where(forest.categories >= 0, forest.categories + start, -1)
        for forest, start in zip(forests, sets_before, strict=False)
    ]
    node_start = [
        forest.node_start[:-1] + start for forest, start in zip(forests, nodes_before, strict=False)
    ]
    leaf_start = [
        forest.leaf_start[:-1] + start
        for forest, start in zip(forests, leaves_before, strict=False)
    ]
    return Forest(
        feature=np.concatenate([forest.feature for forest in forests]),
        threshold=np.concatenate([forest.threshold for forest in forests]),
        children=np.concatenate([forest.children for forest in forests]),
        categories=np.concatenate(categories),
        node_start=np.concatenate([*node_start, nodes_before[-1:]]),
        leaf=np.concatenate([forest.leaf for forest in forests]),
        leaf_start=np.concatenate([*leaf_start, leaves_before[-1:]]),
        sets=np.concatenate([forest.sets for forest in forests]),
    )


def parse_lightgbm(text: str, *, n_categories: int) -> Forest:
    """Return the trees in the text format of LightGBM, which it has just written."""
    sections = text.partition("end of trees")[0].split("\nTree=")[1:]
    return concatenate([_parse_tree(section, n_categories) for section in sections])


def _parse_tree(section: str, n_categories: int) -> Forest:
    fields = dict(line.split("=", 1) for line in section.splitlines() if "=" in line)

    def numbers(name: str, dtype: type) -> NDArray[Any]:
        return np.array(fields.get(name, "").split(), dtype=dtype)

    leaf = numbers("leaf_value", np.float64)
    n = len(leaf) - 1
    if n == 0:
        feature, children = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
        threshold, kind = np.zeros(0), np.zeros(0, np.int64)
    else:
        feature, kind = numbers("split_feature", np.int64), numbers("decision_type", np.int64)
        children = np.stack([numbers(f"{s}_child", np.int64) for s in ("left", "right")], axis=1)
        threshold = numbers("threshold", np.float64)
    on_category = (kind & _CATEGORY_BIT) > 0
    categories = np.where(on_category, threshold, -1).astype(np.int64)
    ends, words = numbers("cat_boundaries", np.int64), numbers("cat_threshold", np.int64)
    sets = np.zeros((int(on_category.sum()), n_categories), dtype=np.uint8)
    for i in range(len(sets)):
        bits = words[ends[i] : ends[i + 1], np.newaxis] >> np.arange(32) & 1
        left = np.flatnonzero(bits.ravel())
        sets[i, left[left < n_categories]] = 1
    return Forest(
        feature=feature,
        threshold=np.where(on_category, 0.0, threshold),
        children=children,
        categories=categories,
        node_start=np.array([0, n]),
        leaf=leaf,
        leaf_start=np.array([0, n + 1]),
        sets=sets,
    )
