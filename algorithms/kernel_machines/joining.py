"""A new task for a trained model, learned with the α of all others frozen."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, check_sizes
from algorithms.interface.trace import LoopState, Trace
from algorithms.kernel_machines.building import error_name, error_of
from algorithms.kernel_machines.examples import Examples
from algorithms.kernel_machines.input_kernels import Standard
from algorithms.kernel_machines.losses import Loss
from algorithms.kernel_machines.model import KernelMachine
from algorithms.kernel_machines.output_kernels import OutputKernel
from algorithms.numerics import kernels_fmtl_tasks as kernels

Array = NDArray[np.float64]


def check_new_task(model: KernelMachine, task: Task) -> None:
    """Raise InvalidData where a task cannot join the model."""
    model.check_new_name(task.name)
    check_sizes([task])
    kind = "numbers" if model.targets[0].classes is None else "classes"
    if task.target != kind:
        raise InvalidData(
            f"the targets of task '{task.name}' are {task.target}, those of the model {kind}",
            task=task.name,
        )
    if task.n_features != len(model.mean):
        raise InvalidData(
            f"task '{task.name}' has {task.n_features} features, the model {len(model.mean)}",
            task=task.name,
        )
    if model.kernel.name == "precomputed":
        raise InvalidData(
            f"task '{task.name}' cannot join a model with a precomputed kernel, which lacks the "
            "values among its own rows; fit again with all tasks",
            task=task.name,
        )


def join_task(
    model: KernelMachine,
    examples: Examples,
    *,
    loss: Loss,
    kernel: OutputKernel,
    max_iter: int,
    tolerance: float,
    trace: Trace,
) -> KernelMachine:
    """Give the model with the one task of these examples, output by output.

    Parameters
    ----------
    examples
        Rows as the user has them; targets in the units of the model.
    trace
        Runs one loop per output.
    """
    first = len(model.output_names)
    (target,) = examples.targets
    trace.expect(target.n_outputs)
    rows = Standard(model.mean, model.deviation).apply(examples.X)
    F = []
    for r in range(target.n_outputs):
        part = examples.part(r)
        y, w = examples.y[part], examples.w[part]
        b, Z = _products_with(model, rows)
        K = model.kernel.gram(rows) if Z is None else Z @ Z.T
        end = _solve(
            y, w, b / kernel.C, K, model.g, loss=loss, kernel=kernel, max_iter=max_iter,
            tolerance=tolerance, trace=trace, loop=f"joining '{target.task}', output {r + 1}",
        )  # fmt: skip
        theta = kernel.theta(end.g)
        F.append(np.column_stack([b / kernel.C, K @ end.kappa]) @ theta[-1])
        model = _with_output(model, rows, Z, kappa=end.kappa, g=end.g, theta=theta, C=kernel.C)
    target = replace(target, first=first)
    y = examples.y.reshape(target.n_outputs, -1).T
    error = {error_name(target): error_of(y, np.stack(F, axis=1), target), "duality_gap": 0.0}
    return replace(
        model,
        tasks=(*model.tasks, target.task),
        targets=(*model.targets, target),
        scores={name: {**old, target.task: error[name]} for name, old in model.scores.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joining(LoopState):
    """Dual variables κ (n,) of the new output, and g (T + 1, T + 1)."""

    kappa: Array
    g: Array


def _solve(
    y: Array,
    w: Array,
    b: Array,
    K: Array,
    g: Array,
    *,
    loss: Loss,
    kernel: OutputKernel,
    max_iter: int,
    tolerance: float,
    trace: Trace,
    loop: str,
) -> _Joining:
    """Give the κ of the new output that maximises the dual with all others frozen.

    Parameters
    ----------
    b : (n, T)
        Products with the frozen outputs.
    K : (n, n)
    g : (T, T)
    """
    T, n = len(g), len(y)
    pieces = loss.pieces(y, w)

    def state(kappa: Array) -> _Joining:
        own = K @ kappa
        cross = kappa @ b
        joined = np.block([[g, cross[:, np.newaxis]], [cross[np.newaxis], kappa @ own]])
        F = np.column_stack([b, own]) @ kernel.theta(joined)[-1]
        values, gains = loss.values(y, F, w), loss.gains(y, kappa, w)
        bound = kernel.bound(joined)
        dual = float(gains.sum()) - float(2.0 * bound[-1, :-1].sum() + bound[-1, -1])
        gap = float((values - gains + kappa * F).sum())
        residual = gap / (gap + dual) if gap + dual > 0 else 0.0
        return _Joining(objective=dual, residual=residual, kappa=kappa, g=joined)

    def step(before: _Joining) -> _Joining:
        kappa, moved = before.kappa.copy(), before.g.copy()
        B = np.column_stack([b, K @ kappa])
        kernels.task_dense(
            K, np.arange(n), 1, T, pieces, loss.epsilon, loss.is_logistic, kernel.rule,
            kernel.Theta, kappa, B, moved,
        )  # fmt: skip
        return state(kappa)

    start = state(loss.start(y, w))
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def _products_with(model: KernelMachine, rows: Array) -> tuple[Array, Array | None]:
    """Give Σ_{j in s} α_j k(x, x_j) of rows and every output s (n, T), and features if any."""
    T = len(model.g)
    if model.kernel.is_linear:
        Z = model.kernel.features(rows)
        return Z @ model.U, Z
    if len(model.expand):
        Z = model.kernel.matrix(rows, model.support) @ model.expand
        return Z @ model.U, Z
    b = np.zeros((len(rows), T))
    n_base = T - len(model.own)
    sums = csr_array((model.alpha, (model.row, model.output)), shape=(len(model.support), n_base))
    b[:, :n_base] = np.asarray(sums.T @ model.kernel.matrix(model.support, rows)).T
    for s, (rows_s, alpha) in model.own.items():
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
    """Give the model with one more output; what it had stays as it was."""
    T = len(model.g)
    Theta = theta / C
    Theta[:T, :T] = model.Theta
    if Z is None:
        n_base = T - len(model.own)
        shape = (len(model.support), n_base)
        sums = csr_array((model.alpha, (model.row, model.output)), shape=shape)
        column = np.asarray(sums @ Theta[-1, :n_base])
        used = kappa != 0.0
        own = {**model.own, T: (rows[used], C * kappa[used])}
        return replace(
            model, Theta=Theta, g=g, beta=np.column_stack([model.beta, column]), own=own,
            U=np.zeros((0, T + 1)),
        )  # fmt: skip
    U = np.column_stack([model.U, C * (kappa @ Z)])
    column = U @ Theta[-1]
    if len(model.expand):
        column = model.expand @ column
    beta = np.column_stack([model.beta, column])
    return replace(model, Theta=Theta, g=g, beta=beta, U=U)
