"""The model of kernel machines, F(x, t) = Σ_j k(x, x_j) β_jt."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from algorithms.families.kernel_machines.examples import Target
from algorithms.families.kernel_machines.input_kernels import InputKernel, Standardiser
from algorithms.interface.header import pick_learned
from algorithms.interface.model import Model, check_array
from algorithms.interface.relations import Relations, relations_of
from algorithms.interface.stored_fields import NOT_STORED, MaybeInfinite
from algorithms.interface.target_scales import NO_PRIOR, StoredPrior
from algorithms.numerics.arrays import Array
from algorithms.numerics.sparse_rows import is_sparse

Indices = NDArray[np.int64]

#: Maximum size of a block of kernel values.
MAX_BLOCK_VALUES = 4_000_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class KernelMachine(Model):
    """A kernel machine for several tasks, with its output kernel Θ.

    Parameters
    ----------
    algorithm
        Name of the algorithm that trained the model.
    tasks
        Names of the tasks in the order of the dataset; outputs are in the order of the names.
    targets
        Encoding of the targets of each task; sorted by task, with adapted tasks last.
    kernel, mean, deviation
        The kernel is a function of standardised rows (x - mean)/deviation.
    Theta : (T, T)
        The output kernel.
    g : (T, T)
        ⟨α_r, K_rs α_s⟩ / C².
    support : (m, d)
        Rows with a coefficient; empty for a linear kernel.
    beta : (m, T), or (d, T) for a linear and a precomputed kernel
        Coefficients. For a linear kernel with an intercept there is one more row, at the end.
    alpha : (e,)
        Dual variables other than 0, of support row ``row`` (e,) and output ``output`` (e,). Empty
        if ``U`` has their sums.
    U : (q, T)
        For a linear kernel and with landmarks: Σ_j α_j z_j of each output, with features z.
    expand : (m, q)
        With landmarks, which are then the support: z = k(x, support) expand.
    adapted
        Rows (m_t, d) and α (m_t,) of outputs that were added by adaptation. Such an output depends
        on the outputs before it, but they do not depend on it, so their predictions do not change.
    target_prior
        Prior of the scale of a new task's targets.
    fit_info
        Results of the fit besides arrays, as JSON: parameters, gap, relations, ...
    scores
        Metrics on the training rows.
    """

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    targets: tuple[Target, ...]
    kernel: InputKernel
    mean: Array
    deviation: Array
    Theta: Array
    g: Array
    support: Array
    beta: Array
    alpha: Array
    row: Indices
    output: Indices
    U: Array
    expand: Array
    target_prior: StoredPrior
    fit_info: Mapping[str, Any]
    scores: Mapping[str, Mapping[str, MaybeInfinite]]
    warnings: tuple[str, ...] = ()
    adapted: Mapping[int, tuple[Array, Array]] = field(default_factory=dict, metadata=NOT_STORED)

    @property
    def takes_sparse(self) -> bool:
        """Whether the kernel is linear."""
        return self.kernel.is_linear

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Error on the training rows, and the relative duality gap of each task."""
        return {name: dict(values) for name, values in self.scores.items()}

    @property
    def output_names(self) -> tuple[str, ...]:
        """Name of each output: the task, or task and class."""
        return tuple(name for target in self.targets for name in target.output_names())

    def relations(self) -> Relations:
        """Return the relations of the outputs from the output kernel."""
        return relations_of(self.Theta, self.output_names)

    def coefficients(self, task: str) -> Array | None:
        """Return the coefficients (n_features, n_outputs); None if the kernel is not linear."""
        target = self.target_of(task)
        if not self.kernel.is_linear:
            return None
        V = self._slopes(target)
        return V if target.classes is not None else V * target.scale

    def learned(self) -> dict[str, Any]:
        """Return the output kernel, the objective and the relative duality gap."""
        return {"task_covariance": self.Theta, **pick_learned(self.fit_info)}

    def target_of(self, task: str) -> Target:
        """Return the encoding of a task's targets."""
        self.task_index(task)
        return next(target for target in self.targets if target.task == task)

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; empty for numbers."""
        return self.target_of(task).classes or ()

    def width(self, method: str, *, task: str) -> int:
        """Return the number of columns."""
        del method
        self.task_index(task)
        return len(self.mean)

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return predicted numbers or labels, (n_samples,)."""
        rows = self.check_rows(X, method="predict", task=task)
        target = self.target_of(task)
        return target.decode(self.outputs(rows, target))

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return the margin of each class, or predicted numbers, (n_samples, n_classes).

        For two classes, the margin of the second, and for numbers (n_samples,).
        """
        rows = self.check_rows(X, method="decision_function", task=task)
        target = self.target_of(task)
        F = self.outputs(rows, target)
        if target.classes is None:
            return target.center + target.scale * F[:, 0]
        return F[:, 0] if target.n_outputs == 1 else F

    def outputs(self, rows: Array, target: Target) -> Array:
        """Return F (n, n_outputs) of validated rows, computed in blocks of bounded size."""
        beta = np.ascontiguousarray(self.beta[:, target.outputs])
        if is_sparse(rows):
            V, bias = self._slopes(target), beta[len(self.mean) :].sum(axis=0)
            return np.asarray(rows @ V - self.mean @ V + self.kernel.bias * bias)
        Z = Standardiser(self.mean, self.deviation).apply(rows)
        if self.kernel.name == "precomputed":
            return np.asarray(Z @ beta)
        if self.kernel.is_linear:
            return np.asarray(self.kernel.features(Z) @ beta)
        step = max(MAX_BLOCK_VALUES // max(len(self.support), 1), 1)
        blocks = []
        for start in range(0, max(len(Z), 1), step):
            block = Z[start : start + step]
            F = self.kernel.matrix(block, self.support) @ beta
            for s, (rows_s, alpha) in sorted(self.adapted.items()):
                adapted = [t for t in range(target.first, target.outputs.stop) if t in self.adapted]
                for t in (t for t in adapted if s <= t):
                    values = self.kernel.matrix(block, rows_s) @ (self.Theta[t, s] * alpha)
                    F[:, t - target.first] += values
            blocks.append(F)
        return np.concatenate(blocks)

    def _slopes(self, target: Target) -> Array:
        """Return the derivatives (d, n_outputs) of the outputs with a linear kernel."""
        spread = self.deviation * np.sqrt(self.kernel.divisor)
        slopes: Array = self.beta[: len(self.mean), target.outputs] / spread[:, np.newaxis]
        return slopes

    def with_warnings(self, *warnings: str) -> "KernelMachine":
        """Return the model with additional warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name.

        Arrays of tasks added by adaptation are named ``own.<output>.rows`` and
        ``own.<output>.alpha``, where an output is the function of a task or of one of its classes.
        """
        arrays = super(KernelMachine, self).to_arrays()
        for output, (rows, alpha) in self.adapted.items():
            arrays |= {f"own.{output}.rows": rows, f"own.{output}.alpha": alpha}
        return arrays

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        return {**super(KernelMachine, self).header(), "own": sorted(self.adapted)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the model from the results of :meth:`to_arrays` and :meth:`header`."""
        unscaled = {**NO_PRIOR, "scale": header["targets"][0]["scale"]}
        model = super(KernelMachine, cls).from_arrays(arrays, {"target_prior": unscaled, **header})
        adapted = {o: (arrays[f"own.{o}.rows"], arrays[f"own.{o}.alpha"]) for o in header["own"]}
        return replace(model, adapted=adapted)

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        T, d = len(self.output_names), len(self.mean)
        if sorted(target.task for target in self.targets) != sorted(self.tasks):
            raise ValueError("targets and tasks are inconsistent")
        if self.kernel.is_linear:
            m = d + (self.kernel.bias != 0.0)
        else:
            m = d if self.kernel.name == "precomputed" else len(self.support)
        expected = {"Theta": (T, T), "g": (T, T), "deviation": (d,), "beta": (m, T)}
        for name, shape in expected.items():
            check_array(getattr(self, name), shape, name=name)
        if self.support.ndim != 2 or self.support.shape[1] != d:
            raise ValueError(f"support has shape {self.support.shape}, expected (m, {d})")
