"""Adaptation of a trained model to a new task, with the α of all other tasks fixed."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from algorithms.families.kernel_machines.building import error_metric, training_error
from algorithms.families.kernel_machines.examples import Examples
from algorithms.families.kernel_machines.input_kernels import Standardiser
from algorithms.families.kernel_machines.losses import Loss
from algorithms.families.kernel_machines.model import KernelMachine
from algorithms.families.kernel_machines.new_output import NewOutput, solve_new_output
from algorithms.families.kernel_machines.output_kernels import OutputKernel
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task
from algorithms.interface.trace import Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import relative_gap


def check_new_task(model: KernelMachine, task: Task, *, memory_gb: float) -> None:
    """Raise InvalidData if the model cannot be adapted to a task, or memory does not suffice."""
    kind = "numbers" if model.targets[0].classes is None else "classes"
    if task.target != kind:
        raise InvalidData(
            f"task '{task.name}' has targets that are {task.target}, but the model was trained on "
            f"{kind}; upload the task with target_kind={kind}",
            task=task.name,
        )
    if model.kernel.name == "precomputed":
        raise InvalidData(
            f"a model with a precomputed kernel cannot be adapted to task '{task.name}', because "
            "kernel values among its rows are missing; train again with all tasks",
            task=task.name,
        )
    needed = 16e-9 * task.n_samples**2  # the matrix, and a temporary copy
    if needed > memory_gb:
        raise InvalidData(
            f"the kernel matrix of the {task.n_samples} rows of task '{task.name}' needs "
            f"{needed:.3g} GB, more than the model's 'memory_gb' = {memory_gb:g}; use fewer rows, "
            "or train again with all tasks",
            task=task.name,
        )


def adapt_to_task(
    model: KernelMachine,
    examples: Examples,
    *,
    loss: Loss,
    kernel: OutputKernel,
    max_iter: int,
    tolerance: float,
    trace: Trace,
) -> KernelMachine:
    """Return the model with the task of the given examples, output by output.

    Parameters
    ----------
    examples
        Rows in the units of the data; targets in the units of the model.
    trace
        Runs one loop per output.
    """
    first = len(model.output_names)
    (target,) = examples.targets
    trace.expect_loops(target.n_outputs)
    rows = Standardiser(model.mean, model.deviation).apply(examples.X)
    F, primal, gap = [], 0.0, 0.0
    for r in range(target.n_outputs):
        part = examples.parts[r]
        y, w = examples.y[part], examples.w[part]
        b, Z = _products_with(model, rows)
        K = model.kernel.gram(rows) if Z is None else Z @ Z.T
        problem = NewOutput(y, w, b / kernel.C, K, model.g, loss, kernel)
        end = solve_new_output(
            problem, max_iter=max_iter, tolerance=tolerance, trace=trace,
            loop=f"joining '{target.task}', output {r + 1}",
        )  # fmt: skip
        theta = kernel.theta(end.g)
        F.append(problem.predictions(end.kappa))
        primal, gap = primal + end.primal, gap + end.gap
        model = _with_output(model, rows, Z, kappa=end.kappa, g=end.g, theta=theta, C=kernel.C)
    target = replace(target, first=first)
    y = examples.y.reshape(target.n_outputs, -1).T
    final_gap = relative_gap(primal, gap)
    scores = {
        error_metric(target): training_error(y, np.stack(F, axis=1), target, examples.weights[0]),
        "duality_gap": final_gap,
    }
    return replace(
        model.with_warnings(*_warnings(target.task, final_gap, tolerance)),
        tasks=(*model.tasks, target.task),
        targets=(*model.targets, target),
        scores={name: {**old, target.task: scores[name]} for name, old in model.scores.items()},
    )


def _warnings(task: str, gap: float, tolerance: float) -> tuple[str, ...]:
    warning = (
        f"the adaptation to task '{task}' stopped with a relative duality gap of {gap:.1e}, above "
        f"the tolerance {tolerance:g}; train the model again with a larger max_iter or a smaller C"
    )
    return (warning,) if gap > tolerance else ()


def _products_with(model: KernelMachine, rows: Array) -> tuple[Array, Array | None]:
    """Return Σ_{j in s} α_j k(x, x_j) for rows x and every output s (n, T), and features if any."""
    T = len(model.g)
    if model.kernel.is_linear:
        Z = model.kernel.features(rows)
        return Z @ model.U, Z
    if len(model.expand):
        Z = model.kernel.matrix(rows, model.support) @ model.expand
        return Z @ model.U, Z
    b = np.zeros((len(rows), T))
    n_base = T - len(model.adapted)
    sums = csr_array((model.alpha, (model.row, model.output)), shape=(len(model.support), n_base))
    b[:, :n_base] = np.asarray(sums.T @ model.kernel.matrix(model.support, rows)).T
    for s, (rows_s, alpha) in model.adapted.items():
        b[:, s] = model.kernel.matrix(rows, rows_s) @ alpha
    return b, None


def _with_output(
    model: KernelMachine,
    rows: Array,
    Z: Array | None,
    *,
    kappa: Array,
    g: Array,
    theta: Array,
    C: float,
) -> KernelMachine:
    """Return the model with a new output; predictions of other outputs do not change."""
    T = len(model.g)
    Theta = theta / C
    Theta[:T, :T] = model.Theta
    if Z is None:
        n_base = T - len(model.adapted)
        shape = (len(model.support), n_base)
        sums = csr_array((model.alpha, (model.row, model.output)), shape=shape)
        column = np.asarray(sums @ Theta[-1, :n_base])
        used = kappa != 0.0
        adapted = {**model.adapted, T: (rows[used], C * kappa[used])}
        return replace(
            model, Theta=Theta, g=g, beta=np.column_stack([model.beta, column]), adapted=adapted,
            U=np.zeros((0, T + 1)),
        )  # fmt: skip
    U = np.column_stack([model.U, C * (kappa @ Z)])
    column = U @ Theta[-1]
    if len(model.expand):
        column = model.expand @ column
    beta = np.column_stack([model.beta, column])
    return replace(model, Theta=Theta, g=g, beta=beta, U=U)
