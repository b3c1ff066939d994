"""Metadata, configuration and statistics of models in the format of the protocol."""

from typing import Any, Final

from algorithms.interface.methods import CLASS_METHODS, FEATURE_METHODS, OUTPUT_SHAPES
from algorithms.interface.model import Model
from algorithms.wrappers.preparation.model import preparation_of
from service.inference.context import InferenceServices
from service.inference.statistics import PHASES, MethodStatistics
from service.inference.task_column import TASK
from service.inference.v2.columns import DATATYPES, ROWS, input_name
from service.inference.v2.datatypes import BYTES
from service.inference.v2.response import CLASSES
from service.models.store import ServableVersion

PLATFORM: Final = "sibling"
#: Variable dimension: it depends on the request, or differs between tasks.
_VARIABLE: Final = -1


def tensors_of(
    services: InferenceServices, served: ServableVersion, method: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the inputs and the outputs of a method, each with name, datatype and shape."""
    model = services.models.get(served)
    column = TASK if served.task_column == ROWS else served.task_column
    inputs = [*_rows(model, method, column), _tensor(column, BYTES, [_VARIABLE])]
    labels = {type(label) for task in model.tasks for label in model.classes(task)}
    label_datatype = BYTES if str in labels else "INT64"
    n_classes = _common_dim({len(model.classes(task)) for task in model.tasks})
    if method in OUTPUT_SHAPES:
        datatype = label_datatype if labels and method == "predict" else "FP64"
        return inputs, [_tensor(method, datatype, [_VARIABLE, *OUTPUT_SHAPES[method]])]
    if method in CLASS_METHODS:
        # with two classes, or none, the output is one number per row
        is_scalar = method == "decision_function" and n_classes in (0, 1, 2)
        outputs = [_tensor(method, "FP64", [_VARIABLE] if is_scalar else [_VARIABLE, n_classes])]
        if labels:
            outputs.append(_tensor(CLASSES, label_datatype, [n_classes]))
        return inputs, outputs
    return inputs, [_tensor(method, "FP64", [_VARIABLE, _output_width(model, method)])]


def _rows(model: Model, method: str, task_column: str) -> list[dict[str, Any]]:
    """Return the input of rows of numbers, or an input for each column of a raw table."""
    preparation = preparation_of(model)
    parts = () if preparation is None else preparation.parts
    columns = dict.fromkeys(column for part in parts for column in part.columns)
    if method in FEATURE_METHODS and any(column.kind != "number" for column in columns):
        kinds = {column.name: column.kind for column in columns}
        names = {input_name(name, task_column): kind for name, kind in kinds.items()}
        return [_tensor(name, DATATYPES[kind], [_VARIABLE]) for name, kind in names.items()]
    width = _common_dim({model.width(method, task=task) for task in model.tasks})
    return [_tensor(ROWS, "FP64", [_VARIABLE, width])]


def config_of(name: str, inputs: list[Any], outputs: list[Any]) -> dict[str, Any]:
    """Return the configuration of a model in the format of Triton."""
    return {
        "name": name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": 0,
        "input": [_config(tensor) for tensor in inputs],
        "output": [_config(tensor) for tensor in outputs],
    }


def statistics_of(record: MethodStatistics, name: str, version: int) -> dict[str, Any]:
    """Return the statistics of a model since the service started."""
    spent = {
        phase: {"count": record.n_requests, "ns": ns}
        for phase, ns in zip(PHASES, record.phases_ns, strict=True)
    }
    return {
        "name": name,
        "version": str(version),
        "last_inference": record.last_ms,
        "inference_count": record.n_rows,
        "execution_count": record.n_requests,
        "inference_stats": {
            "success": {"count": record.n_requests, "ns": record.total_ns},
            "fail": {"count": record.n_failed, "ns": record.failed_ns},
            **spent,
        },
        "latency_ns": record.quantiles_ns,
        "batch_stats": [],
    }


def _tensor(name: str, datatype: str, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape}


def _config(tensor: dict[str, Any]) -> dict[str, Any]:
    datatype = "STRING" if tensor["datatype"] == BYTES else tensor["datatype"]
    return {"name": tensor["name"], "data_type": f"TYPE_{datatype}", "dims": tensor["shape"]}


def _common_dim(numbers: set[int]) -> int:
    return numbers.pop() if len(numbers) == 1 else _VARIABLE


def _output_width(model: Model, method: str) -> int:
    """Return the number of output columns, -1 if no method takes such outputs as its input."""
    preparation = preparation_of(model)
    if preparation is not None and method in ("inverse_transform", "reconstruct"):
        return _common_dim({len(preparation.of(task).names) for task in model.tasks})
    consumer = {"inverse_transform": "transform", "reconstruct": "transform"}.get(method)
    if method == "transform" and hasattr(model, "inverse_transform"):
        consumer = "inverse_transform"
    if consumer is None or consumer not in model.available_methods():
        return _VARIABLE
    return _common_dim({model.width(consumer, task=task) for task in model.tasks})
