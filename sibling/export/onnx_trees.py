"""Decision trees as nodes of ONNX that follow all rows through all trees, level by level.

``TreeEnsembleRegressor`` would round thresholds or sums to single precision, and knows no sets of
categories. Here comparisons are those of :class:`~algorithms.baselines.boosted_trees.forest.Forest`
in double precision. A node on the task is a comparison with a column of 0 and 1 for its set.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.baselines.boosted_trees.forest import Forest
from algorithms.baselines.boosted_trees.model import TreesModel
from sibling.export.onnx_graph import Graph, Outputs, axes, same_classes, score_outputs

Array = NDArray[Any]


def add_trees(graph: Graph, model: TreesModel, rows: str) -> Outputs:
    """Add the sums of the trees of each row's task."""
    classes = same_classes([part.classes for part in model.parts])
    forest, n_scores = model.forest, model.parts[0].n_scores
    standardised = graph.add("Div", graph.add("Sub", rows, model.mean), model.scale)
    category = [part.category for part in model.parts]
    # no set has the category -1
    sets = np.pad(forest.sets, ((0, 0), (0, 1)))[:, category].T
    columns = graph.add("Concat", standardised, graph.of_task(1.0 - sets), axis=1)
    places = graph.of_task(_roots(model))
    for feature, threshold, left, right in _levels(graph, forest, n_columns=len(model.mean)):
        values = graph.add("GatherElements", columns, graph.add("Gather", feature, places), axis=1)
        goes_left = graph.add("LessOrEqual", values, graph.add("Gather", threshold, places))
        children = (graph.add("Gather", side, places) for side in (left, right))
        places = graph.add("Where", goes_left, *children)
    leaves = np.concatenate([np.zeros(len(forest.feature)), forest.leaf, [0.0]])
    found = graph.add("Gather", leaves, places)
    by_score = graph.add("Reshape", found, axes(0, -1, n_scores))
    sums = graph.add("ReduceSum", by_score, axes(1), keepdims=0)
    center, unit = (
        graph.of_task(np.array([[getattr(part, name)] for part in model.parts]))
        for name in ("center", "unit")
    )
    scores = graph.add("Add", center, graph.add("Mul", unit, sums))
    return score_outputs(graph, scores, n_scores, classes)


def _roots(model: TreesModel) -> Array:
    """Return the places of the first nodes of each task's trees, filled with the empty leaf."""
    forest, n_nodes = model.forest, len(model.forest.feature)
    is_leaf = np.diff(forest.node_start) == 0
    first = np.where(is_leaf, n_nodes + forest.leaf_start[:-1], forest.node_start[:-1])
    widths = [last - start for start, last in (part.trees for part in model.parts)]
    roots = np.full((len(model.parts), max(widths)), n_nodes + len(forest.leaf))
    for own, width, part in zip(roots, widths, model.parts, strict=True):
        own[:width] = first[slice(*part.trees)]
    return roots


def _levels(graph: Graph, forest: Forest, *, n_columns: int) -> list[list[str]]:
    """Return the columns, thresholds and children by place, once for each level of the trees.

    Places are nodes, then leaves, then a leaf of value 0. Leaves are their own children.
    """
    n_nodes, n_leaves = len(forest.feature), len(forest.leaf) + 1
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.node_start))[:, np.newaxis]
    inner = forest.node_start[tree] + forest.children
    outer = n_nodes + forest.leaf_start[tree] - 1 - forest.children
    leaves = np.repeat(n_nodes + np.arange(n_leaves)[:, np.newaxis], 2, axis=1)
    children = np.concatenate([np.where(forest.children >= 0, inner, outer), leaves])
    is_set = forest.categories >= 0
    feature = np.where(is_set, n_columns + forest.categories, forest.feature)
    threshold = np.where(is_set, 0.5, forest.threshold)
    tables = [
        graph.constant(np.ascontiguousarray(table))
        for table in (
            np.pad(feature, (0, n_leaves)),
            np.pad(threshold, (0, n_leaves)),
            children[:, 0],
            children[:, 1],
        )
    ]
    n_levels, places = 0, np.arange(n_nodes)
    while (places < n_nodes).any():
        places = np.unique(children[places])
        n_levels += 1
    return [tables] * n_levels
