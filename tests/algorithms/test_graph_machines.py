"""Kernel machines on a graph of tasks, beside a closed form."""

import numpy as np
import pytest

from algorithms.baselines.kernels import GraphMachines, TaskMachines
from algorithms.interface.errors import InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace

EDGES = {"a": {"b": 2.0, "c": 0.5}, "c": {"d": 1.0}}
PLAIN = {
    "kernel": "linear", "standardise": "none", "scale": "absolute", "center_targets": "none",
    "intercept": 0.0, "tolerance": 1e-10, "max_iter": 20_000,
}  # fmt: skip


def made(n=8, d=3) -> TaskSet:
    rng = np.random.default_rng(0)
    return TaskSet(
        tuple(
            Task.from_rows(name, rng.normal(size=(n, d)), y=rng.normal(size=n)) for name in "abcd"
        )
    )


def fit(algorithm, tasks, **values):
    params = algorithm.Params(**{**PLAIN, **values})
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def test_the_functions_minimise_the_penalty_of_the_graph() -> None:
    tasks, delta, C = made(), 0.3, 0.7
    model = fit(GraphMachines(), tasks, edges=EDGES, delta=delta, C=C)
    # min C/2 Σ‖y_t − X_t w_t‖² + c/2 (Σ_edges w_st‖w_s − w_t‖² + delta Σ‖w_t‖²), one linear system
    weights = np.zeros((4, 4))
    for s, others in EDGES.items():
        for t, weight in others.items():
            weights["abcd".index(s), "abcd".index(t)] = weight
    weights += weights.T
    L = np.diag(weights.sum(axis=1)) - weights + delta * np.eye(4)
    c = np.mean(np.diag(np.linalg.inv(L)))  # Theta has a mean diagonal of 1
    A = np.kron(c * L, np.eye(3))
    b = np.zeros(12)
    for t, task in enumerate(tasks):
        A[3 * t : 3 * t + 3, 3 * t : 3 * t + 3] += C * task.X.T @ task.X
        b[3 * t : 3 * t + 3] = C * task.X.T @ task.y
    W = np.linalg.solve(A, b).reshape(4, 3)
    rows = np.random.default_rng(1).normal(size=(5, 3))
    for t, task in enumerate(tasks):
        np.testing.assert_allclose(model.predict(rows, task=task.name), rows @ W[t], atol=1e-4)


@pytest.mark.parametrize("values", [{}, {"edges": EDGES, "delta": 1e6}])
def test_without_edges_each_task_has_its_own_machine(values) -> None:
    tasks = made()
    graph, own = fit(GraphMachines(), tasks, **values), fit(TaskMachines(), tasks)
    rows = np.ones((1, 3))
    for name in "abcd":
        assert graph.predict(rows, task=name) == pytest.approx(
            own.predict(rows, task=name), abs=1e-4
        )


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({"a": {"x": 1.0}}, "unknown task 'x'"),
        ({"x": {"a": 1.0}}, "unknown task 'x'"),
        ({"a": {"b": 1.0}, "b": {"a": 1.0}}, "a pair of tasks twice"),
        ({"a": {"a": 1.0}}, "from a task to itself"),
    ],
)
def test_unsuitable_edges_are_rejected(edges, message) -> None:
    with pytest.raises(InvalidParams, match=message):
        fit(GraphMachines(), made(), edges=edges)
