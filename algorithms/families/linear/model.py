"""Models whose predictions are linear functions of each task."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final

from numpy.typing import NDArray

from algorithms.families.linear.functions import Functions
from algorithms.families.linear.targets import decode
from algorithms.interface.header import pick_learned
from algorithms.interface.model import Model
from algorithms.interface.needs import check_same_kind
from algorithms.interface.target_scales import NO_PRIOR
from algorithms.interface.tasks import Task
from algorithms.numerics.arrays import Array


class FunctionModel(Model):
    """Base class of models that predict with :class:`Functions`."""

    @property
    @abstractmethod
    def functions(self) -> Functions:
        """The functions of the tasks."""

    @property
    def takes_sparse(self) -> bool:
        """Whether the functions are linear in the columns."""
        return self.functions.basis.references is None

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that trained the model."""
        return self.functions.algorithm

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return self.functions.tasks

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """R², or accuracy, on the training rows."""
        return {name: dict(values) for name, values in self.functions.metrics.items()}

    @property
    def fit_info(self) -> Mapping[str, Any]:
        """Results of the fit besides arrays, as JSON."""
        return self.functions.fit_info

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about this fit."""
        return self.functions.warnings

    def width(self, method: str, *, task: str) -> int:
        """Return the number of features."""
        del method
        self.task_index(task)
        return self.functions.basis.n_features

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; empty for numbers."""
        return self.functions.classes[self.task_index(task)] or ()

    def coefficients(self, task: str) -> Array | None:
        """Return the coefficients (n_features, m) of a task; None with a kernel."""
        linear = self.functions.linear_coefficients()
        columns = self.functions.columns(self.task_index(task))
        return None if linear is None else linear[0][columns].T

    def learned(self) -> dict[str, Any]:
        """Return coefficients and intercepts, and the objective and duality gap if known.

        There is one row of coefficients for each task, or for each of its classes if it has more
        than two.
        """
        learned = pick_learned(self.fit_info)
        coefficients = self.functions.linear_coefficients()
        if coefficients is None:
            return learned
        coef, intercept = coefficients
        if len(coef) == 1 and self.functions.classes[0] is None:
            return {"coef": coef[0], "intercept": float(intercept[0]), **learned}
        return {"coef": coef, "intercept": intercept, **learned}

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the predicted numbers or labels of a task, (n_samples,)."""
        rows = self.check_rows(X, method="predict", task=task)
        index = self.task_index(task)
        return decode(self.functions.scores(rows, index), self.functions.classes[index])

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return the score of each class, or predicted numbers, (n_samples, n_classes).

        For two classes, a score that is positive for the second, and for numbers (n_samples,).
        """
        rows = self.check_rows(X, method="decision_function", task=task)
        scores = self.functions.scores(rows, self.task_index(task))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON: the header of the functions."""
        header: dict[str, Any] = super().header()["functions"]
        return header

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the model from the results of :meth:`to_arrays` and :meth:`header`."""
        return super().from_arrays(arrays, {"functions": {"target_prior": NO_PRIOR, **header}})

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        self.functions.check_stored()


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearModel(FunctionModel):
    """A linear function for each task."""

    # without field(), dataclass would use the abstract property as a default
    functions: Functions = field()

    def for_new_tasks(self, names: tuple[str, ...]) -> "LinearModel":
        """Return the common function, as the function of tasks without rows."""
        return LinearModel(self.functions.for_new_tasks(names))


def check_new_task(model: FunctionModel, task: Task) -> None:
    """Raise InvalidData if a task has another kind of targets than the model."""
    check_same_kind(task, model.functions.classes[0])
