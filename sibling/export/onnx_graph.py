"""A graph of ONNX that grows by nodes."""

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sibling.charts import MissingPackage
from sibling.export import NotExportable

#: Versions of the operators, which onnxruntime has had since 1.10 (2021).
_OPSET: Final = {"": 15, "ai.onnx.ml": 2}
_IR_VERSION: Final = 8

Array = NDArray[Any]
#: Names of methods, with the node, shape and type of their values.
Outputs = dict[str, tuple[str, Sequence[str | int], str]]


class Graph:
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
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
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

    def constant(self, value: Array) -> str:
        """Add an array, for several nodes; return its name."""
        name = f"constant_{next(self._numbers)}"
        if value.dtype.kind == "U":
            value = value.astype(object)
        self._constants.append(self._onnx.numpy_helper.from_array(value, name))
        return name


def refused(reason: str) -> NotExportable:
    """Return the error for a model that no graph can say."""
    return NotExportable(f"the model cannot be exported to ONNX: {reason}")


def axes(*positions: int) -> Array:
    """Return positions of axes, or of columns, as ONNX takes them."""
    return np.array(positions, dtype=np.int64)


def times(graph: Graph, rows: str, matrices: str) -> str:
    """Add the product of each row (n, d) with its own matrix, (n, d, m); the result is (n, m)."""
    product = graph.add("MatMul", graph.add("Unsqueeze", rows, axes(1)), matrices)
    return graph.add("Squeeze", product, axes(1))


def same_classes(classes: Sequence[Sequence[Any] | None]) -> Sequence[Any]:
    """Return the labels of all tasks, none for numbers."""
    if any(labels != classes[0] for labels in classes):
        raise refused("its tasks differ in classes")
    return classes[0] or ()


def score_outputs(graph: Graph, scores: str, width: int, classes: Sequence[Any]) -> Outputs:
    """Add what follows from scores (n, width): numbers, or labels and their scores."""
    values = graph.add("Squeeze", scores, axes(1)) if width == 1 else scores
    if not classes:
        return {"predict": (values, ["n"], "DOUBLE")}
    if width == 1:
        is_second = graph.add("Greater", values, np.array(0.0))
        chosen = graph.add("Cast", is_second, to=graph.int64)
    else:
        chosen = graph.add("ArgMax", scores, axis=1, keepdims=0)
    shape: list[str | int] = ["n"] if width == 1 else ["n", width]
    return {
        "predict": labels_at(graph, classes, chosen),
        "decision_function": (values, shape, "DOUBLE"),
    }


def labels_at(graph: Graph, classes: Sequence[Any], chosen: str) -> tuple[str, list[str], str]:
    """Add the labels at positions (n,), as an output."""
    labels = np.array(classes)
    kind = "STRING" if labels.dtype.kind == "U" else "INT64"
    return graph.add("Gather", labels, chosen), ["n"], kind
