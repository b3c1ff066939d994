"""Probabilities of calibrated models as nodes of ONNX."""

import numpy as np

from algorithms.wrappers.calibration.model import CalibratedModel
from sibling.export.onnx_graph import Graph, Outputs, axes, labels_at, refused


def add_probabilities(graph: Graph, model: CalibratedModel, outputs: Outputs) -> Outputs:
    """Add probabilities from the scores of the model, and labels by their costs if it has some."""
    for task, task_map in zip(model.tasks, model.maps, strict=True):
        if task_map.steps:
            raise refused(f"the probabilities of task '{task}' are a step function of its scores")
    classes = model.classes(model.tasks[0])
    scores = _scores(graph, outputs, n_classes=len(classes))
    scale = graph.of_task(np.array([[task_map.scale] for task_map in model.maps]))
    slope, intercept = (
        graph.of_task(np.array([task_map.sigmoids[:, i] for task_map in model.maps]))
        for i in (0, 1)
    )
    scaled = graph.add("Div", scores, scale)
    p = graph.add("Sigmoid", graph.add("Add", graph.add("Mul", scaled, slope), intercept))
    if len(classes) == 2:
        p = graph.add("Concat", graph.add("Sub", np.array(1.0), p), p, axis=1)
    else:
        p = graph.add("Div", p, graph.add("ReduceSum", p, axes(1), keepdims=1))
    added: Outputs = {"predict_proba": (p, ["n", len(classes)], "DOUBLE")}
    if model.costs:
        weighed = graph.add("Mul", p, graph.of_task(np.array(model.costs, dtype=np.float64)))
        chosen = graph.add("ArgMax", weighed, axis=1, keepdims=0)
        added["predict"] = labels_at(graph, classes, chosen)
    return added


def _scores(graph: Graph, outputs: Outputs, *, n_classes: int) -> str:
    """Add scores (n, 1) of the second of two classes, or (n, n_classes)."""
    if "decision_function" in outputs:
        scores = outputs["decision_function"][0]
        return graph.add("Unsqueeze", scores, axes(1)) if n_classes == 2 else scores
    if "distances" not in outputs:
        raise refused("its tasks differ in classes")
    distances = outputs["distances"][0]
    # the nearest class is compared with the second, the others with the nearest
    first = graph.add("ArgMin", distances, axis=1, keepdims=1)
    is_first = graph.add("Equal", np.arange(n_classes), first)
    rest = graph.add("Where", is_first, np.array(np.inf), distances)
    nearest, second = (
        graph.add("ReduceMin", values, axes=[1], keepdims=1) for values in (distances, rest)
    )
    others = graph.add("Where", is_first, second, nearest)
    margins = graph.add("Sub", others, distances)
    return graph.add("Gather", margins, axes(1), axis=1) if n_classes == 2 else margins
