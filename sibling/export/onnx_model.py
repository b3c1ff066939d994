"""Models as ONNX graphs in double precision, built from their learned arrays.

The inputs of a graph are ``task``, a text for each row, and ``rows``, numbers in the order of the
columns of training. A task that the model does not have is an error of the runtime.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.baselines.boosted_trees.model import TreesModel
from algorithms.baselines.transfer_pca.model import PPCAModel, expected_latents, reconstruction
from algorithms.families.linear.model import FunctionModel
from algorithms.families.projections.model import ProjectionClassifier
from algorithms.families.subspaces.model import SubspaceModel
from algorithms.interface.files import replaced_file
from algorithms.interface.model import Model
from algorithms.registry import load_model
from algorithms.wrappers.calibration.model import CalibratedModel
from algorithms.wrappers.preparation.learning import Preparation
from algorithms.wrappers.preparation.model import PreparedModel
from sibling.export.onnx_graph import (
    Graph,
    Outputs,
    axes,
    refused,
    same_classes,
    score_outputs,
    times,
)
from sibling.export.onnx_probabilities import add_probabilities
from sibling.export.onnx_trees import add_trees

Array = NDArray[Any]


def write(artifact: Path, target: Path) -> Path:
    """Write the model in a file of the service or of an estimator as an ONNX graph.

    Raises
    ------
    NotExportable
        No graph gives the same outputs.
    MissingPackage
        onnx is not installed.
    """
    content = graph_of(load_model(artifact)).SerializeToString()
    with replaced_file(target) as partial:
        partial.write_bytes(content)
    return target


def graph_of(model: Model) -> Any:
    """Return a model as an ``onnx.ModelProto``; see :func:`write`."""
    calibrated = model if isinstance(model, CalibratedModel) else None
    inner = model if calibrated is None else calibrated.inner
    preparation = None
    if isinstance(inner, PreparedModel):
        preparation, inner = inner.preparation, inner.inner
    add = _FAMILIES.get(type(inner))
    if isinstance(inner, FunctionModel) and inner.functions.basis.references is None:
        add = _add_functions
    if add is None:
        kinds = "linear models, trees, discriminants and kinds of PCA are exported"
        raise refused(f"{kinds}, not '{model.algorithm}' as it was trained")
    widths = {inner.width(inner.available_methods()[0], task=task) for task in inner.tasks}
    if len(widths) > 1:
        raise refused("its tasks differ in columns")
    graph, rows, width = Graph(model.tasks), "rows", widths.pop()
    if preparation is not None:
        rows, width = _add_preparation(graph, preparation, model.tasks)
    outputs = add(graph, inner, rows)
    if calibrated is not None and calibrated.maps:
        outputs |= add_probabilities(graph, calibrated, outputs)
    for name, (value, shape, kind) in outputs.items():
        graph.output(name, value, shape, kind)
    return graph.finish(width, model.algorithm)


def _add_preparation(
    graph: Graph, preparation: Preparation, tasks: Sequence[str]
) -> tuple[str, int]:
    """Add fill values, scales and indicators; return the prepared rows, and the raw width."""
    parts = [preparation.of(task) for task in tasks]
    columns = parts[0].columns
    for column in columns:
        if column.kind not in ("number", "boolean"):
            raise refused(f"column '{column.name}' is a {column.kind}, and 'rows' are numbers")
    if any(part.columns != columns for part in parts):
        raise refused("its tasks differ in columns")
    fill, centre, scale = (
        graph.of_task(np.array([getattr(part, name) for part in parts]))
        for name in ("fill", "centre", "scale")
    )
    is_missing = graph.add("IsNaN", "rows")
    filled = graph.add("Where", is_missing, fill, "rows")
    scaled = graph.add("Div", graph.add("Sub", filled, centre), scale)
    indicators = parts[0].has_indicator
    if indicators.any():
        as_numbers = graph.add("Cast", is_missing, to=graph.double)
        order = [(j, len(columns) + j) if has else (j,) for j, has in enumerate(indicators)]
        both = graph.add("Concat", scaled, as_numbers, axis=1)
        scaled = graph.add("Gather", both, np.concatenate(order).astype(np.int64), axis=1)
    return scaled, len(columns)


def _add_functions(graph: Graph, model: FunctionModel, rows: str) -> Outputs:
    functions = model.functions
    classes = same_classes(functions.classes)
    basis, T = functions.basis, len(functions.tasks)
    W = functions.W.T.reshape(T, -1, len(functions.W)).swapaxes(1, 2)  # (T, d, m)
    standardised = graph.add("Div", graph.add("Sub", rows, basis.mean), basis.scale)
    products = times(graph, standardised, graph.of_task(np.ascontiguousarray(W)))
    scores = graph.add("Add", products, graph.of_task(functions.intercept.reshape(T, -1)))
    return score_outputs(graph, scores, W.shape[2], classes or ())


def _add_subspaces(graph: Graph, model: SubspaceModel, rows: str) -> Outputs:
    bases = np.array([model.basis_of(task) for task in model.tasks])
    means = np.array([model.mean_of(task) for task in model.tasks])
    centred = graph.add("Sub", rows, graph.of_task(means))
    coordinates = times(graph, centred, graph.of_task(bases))
    return {"transform": (coordinates, ["n", model.k], "DOUBLE")}


def _add_probabilistic(graph: Graph, model: PPCAModel, rows: str) -> Outputs:
    """Add what holds for complete rows; the outputs of one with a missing value are NaN."""
    _, d, k = model.W.shape
    mean = graph.of_task(model.mean)
    centred = graph.add("Sub", rows, mean)
    maps = zip(model.W, model.noise.tolist(), strict=True)
    matrices = np.array([expected_latents(W, np.eye(d), noise=noise) for W, noise in maps])
    latents = times(graph, centred, graph.of_task(matrices))
    planes = np.array([reconstruction(W, np.eye(d)) for W in model.W])
    nearest = graph.add("Add", times(graph, centred, graph.of_task(planes)), mean)
    return {
        "transform": (latents, ["n", k], "DOUBLE"),
        "reconstruct": (nearest, ["n", d], "DOUBLE"),
    }


def _add_projections(graph: Graph, model: ProjectionClassifier, rows: str) -> Outputs:
    """Add the projection and the distances.

    The predicted class has the smallest distance, but where several are equal: then ``predict``
    compares the rows before the projection.
    """
    shapes = {part.U.shape for part in model.parts}
    if len(shapes) > 1:
        raise refused("its tasks differ in dimensions")
    mean, scale, U = (
        graph.of_task(np.array([getattr(part, name) for part in model.parts]))
        for name in ("mean", "scale", "U")
    )
    projected = times(graph, graph.add("Div", graph.add("Sub", rows, mean), scale), U)
    outputs: Outputs = {"transform": (projected, ["n", shapes.pop()[1]], "DOUBLE")}
    classes = model.parts[0].classes
    if any(part.classes != classes for part in model.parts):
        return outputs  # the distances have a column for each class of a task
    prototypes = graph.of_task(_by_class(model))  # (n, c, r, k)
    differences = graph.add("Sub", graph.add("Unsqueeze", projected, axes(1, 2)), prototypes)
    squares = graph.add(
        "ReduceSum", graph.add("Mul", differences, differences), axes(3), keepdims=0
    )
    nearest = graph.add("ReduceMin", squares, axes=[2], keepdims=0)
    outputs["distances"] = (graph.add("Sqrt", nearest), ["n", len(classes)], "DOUBLE")
    return outputs


def _by_class(model: ProjectionClassifier) -> Array:
    """Return the prototypes of each class of each task, (T, c, r, k).

    Classes with fewer prototypes than others repeat their first one, which changes no minimum.
    """
    own = [
        [part.prototypes[part.labels == c] for c in range(len(part.classes))]
        for part in model.parts
    ]
    r = max(len(points) for of_task in own for points in of_task)
    return np.array(
        [
            [
                np.concatenate([points, np.repeat(points[:1], r - len(points), axis=0)])
                for points in one
            ]
            for one in own
        ]
    )


_FAMILIES: Final[Mapping[type[Model], Callable[[Graph, Any, str], Outputs]]] = {
    SubspaceModel: _add_subspaces,
    PPCAModel: _add_probabilistic,
    ProjectionClassifier: _add_projections,
    TreesModel: add_trees,
}
