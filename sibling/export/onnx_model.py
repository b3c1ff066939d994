"""Models as ONNX graphs in double precision, built from their learned arrays.

The inputs of a graph are ``task``, a text for each row, and ``rows``, numbers in the order of the
columns of training. A task that the model does not have is an error of the runtime.
"""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.families.linear.model import FunctionModel
from algorithms.families.projections.model import ProjectionClassifier
from algorithms.families.subspaces.model import SubspaceModel
from algorithms.interface.files import replaced_file
from algorithms.interface.model import Model
from algorithms.registry import load_model
from algorithms.wrappers.preparation.learning import Preparation
from algorithms.wrappers.preparation.model import PreparedModel
from sibling.charts import MissingPackage
from sibling.export import NotExportable

#: Versions of the operators, which onnxruntime has had since 1.10 (2021).
_OPSET: Final = {"": 15, "ai.onnx.ml": 2}
_IR_VERSION: Final = 8

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
    inner, preparation = model, None
    add: Any  # of the class of the inner model
    if isinstance(model, PreparedModel):
        inner, preparation = model.inner, model.preparation
    if isinstance(inner, FunctionModel) and inner.functions.basis.references is None:
        add, width = _add_functions, inner.functions.basis.n_features
    elif isinstance(inner, SubspaceModel):
        add, width = _add_subspaces, inner.U.shape[1]
    elif isinstance(inner, ProjectionClassifier):
        widths = {part.U.shape for part in inner.parts}
        if len(widths) > 1:
            raise _refused("its tasks differ in columns or dimensions")
        add, width = _add_projections, widths.pop()[0]
    else:
        kinds = "linear models, discriminants and kinds of PCA, without calibration, are exported"
        raise _refused(f"{kinds}, not '{model.algorithm}' as it was trained")
    graph = _Graph(model.tasks)
    rows = "rows"
    if preparation is not None:
        rows, width = _add_preparation(graph, preparation, model.tasks)
    add(graph, inner, rows)
    return graph.finish(width, model.algorithm)


class _Graph:
    """A graph that grows by nodes, with the position of each row's task."""

    def __init__(self, tasks: Sequence[str]) -> None:
        try:
            import onnx
        except ModuleNotFoundError as error:
            if error.name != "onnx":
                raise
            raise MissingPackage("ONNX needs onnx; pip install 'sibling[onnx]'") from None
        self._onnx = onnx
        self.double, self.int64 = onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[Any] = []
        self._numbers = count()
        # a position beyond the tasks, so that an unknown one is an error of Gather
        labels = {"keys_strings": list(tasks), "values_int64s": [*range(len(tasks))]}
        labels["default_int64"] = len(tasks)  # type: ignore[assignment]  # a number
        self._task = self.add("LabelEncoder", "task", domain="ai.onnx.ml", **labels)

    def add(self, operator: str, *inputs: "str | Array", domain: str = "", **options: Any) -> str:
        """Add a node, whose inputs are names or constants; return the name of its output."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        output = f"{operator}_{next(self._numbers)}"
        make = self._onnx.helper.make_node
        self._nodes.append(make(operator, names, [output], domain=domain, **options))
        return output

    def of_task(self, stack: Array) -> str:
        """Add the entry of a stack that belongs to the task of each row."""
        return self.add("Gather", stack, self._task, axis=0)

    def output(self, name: str, value: str, shape: Sequence[str | int], type_: str) -> None:
        """Add an output with a name."""
        helper = self._onnx.helper
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        kind = getattr(self._onnx.TensorProto, type_)
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def finish(self, width: int, name: str) -> Any:
        """Return the checked model."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        inputs = [
            helper.make_tensor_value_info("task", types.STRING, ["n"]),
            helper.make_tensor_value_info("rows", types.DOUBLE, ["n", width]),
        ]
        graph = helper.make_graph(self._nodes, name, inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid(domain, number) for domain, number in _OPSET.items()]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="sibling"
        )
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _constant(self, value: Array) -> str:
        name = f"constant_{next(self._numbers)}"
        if value.dtype.kind == "U":
            value = value.astype(object)
        self._constants.append(self._onnx.numpy_helper.from_array(value, name))
        return name


def _refused(reason: str) -> NotExportable:
    return NotExportable(f"the model cannot be exported to ONNX: {reason}")


def _axes(*positions: int) -> Array:
    return np.array(positions, dtype=np.int64)


def _times(graph: _Graph, rows: str, matrices: str) -> str:
    """Add the product of each row (n, d) with its own matrix, (n, d, m); the result is (n, m)."""
    product = graph.add("MatMul", graph.add("Unsqueeze", rows, _axes(1)), matrices)
    return graph.add("Squeeze", product, _axes(1))


def _add_preparation(
    graph: _Graph, preparation: Preparation, tasks: Sequence[str]
) -> tuple[str, int]:
    """Add fill values, scales and indicators; return the prepared rows, and the raw width."""
    parts = [preparation.of(task) for task in tasks]
    columns = parts[0].columns
    for column in columns:
        if column.kind not in ("number", "boolean"):
            raise _refused(f"column '{column.name}' is a {column.kind}, and 'rows' are numbers")
    if any(part.columns != columns for part in parts):
        raise _refused("its tasks differ in columns")
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


def _add_functions(graph: _Graph, model: FunctionModel, rows: str) -> None:
    functions = model.functions
    classes = functions.classes[0]
    if any(labels != classes for labels in functions.classes):
        raise _refused("its tasks differ in classes")
    basis, T = functions.basis, len(functions.tasks)
    W = functions.W.T.reshape(T, -1, len(functions.W)).swapaxes(1, 2)  # (T, d, m)
    standardised = graph.add("Div", graph.add("Sub", rows, basis.mean), basis.scale)
    products = _times(graph, standardised, graph.of_task(np.ascontiguousarray(W)))
    scores = graph.add("Add", products, graph.of_task(functions.intercept.reshape(T, -1)))
    is_one = W.shape[2] == 1
    values = graph.add("Squeeze", scores, _axes(1)) if is_one else scores
    if classes is None:
        graph.output("predict", values, ["n"], "DOUBLE")
        return
    if is_one:
        is_second = graph.add("Greater", values, np.array(0.0))
        chosen = graph.add("Cast", is_second, to=graph.int64)
    else:
        chosen = graph.add("ArgMax", scores, axis=1, keepdims=0)
    labels = np.array(classes)
    kind = "STRING" if labels.dtype.kind == "U" else "INT64"
    graph.output("predict", graph.add("Gather", labels, chosen), ["n"], kind)
    shape: list[str | int] = ["n"] if is_one else ["n", W.shape[2]]
    graph.output("decision_function", values, shape, "DOUBLE")


def _add_subspaces(graph: _Graph, model: SubspaceModel, rows: str) -> None:
    bases = np.array([model.basis_of(task) for task in model.tasks])
    means = np.array([model.mean_of(task) for task in model.tasks])
    centred = graph.add("Sub", rows, graph.of_task(means))
    coordinates = _times(graph, centred, graph.of_task(bases))
    graph.output("transform", coordinates, ["n", model.k], "DOUBLE")


def _add_projections(graph: _Graph, model: ProjectionClassifier, rows: str) -> None:
    """Add the projection and the distances.

    The predicted class has the smallest distance, but where several are equal: then ``predict``
    compares the rows before the projection.
    """
    mean, scale, U = (
        graph.of_task(np.array([getattr(part, name) for part in model.parts]))
        for name in ("mean", "scale", "U")
    )
    projected = _times(graph, graph.add("Div", graph.add("Sub", rows, mean), scale), U)
    k = model.parts[0].U.shape[1]
    graph.output("transform", projected, ["n", k], "DOUBLE")
    classes = model.parts[0].classes
    if any(part.classes != classes for part in model.parts):
        return  # the distances have a column for each class of a task
    prototypes = graph.of_task(_by_class(model))  # (n, c, r, k)
    differences = graph.add("Sub", graph.add("Unsqueeze", projected, _axes(1, 2)), prototypes)
    squares = graph.add(
        "ReduceSum", graph.add("Mul", differences, differences), _axes(3), keepdims=0
    )
    nearest = graph.add("ReduceMin", squares, axes=[2], keepdims=0)
    graph.output("distances", graph.add("Sqrt", nearest), ["n", len(classes)], "DOUBLE")


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
