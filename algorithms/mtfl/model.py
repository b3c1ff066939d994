"""The model of MTFL: functions of the tasks and the learned features."""

from dataclasses import dataclass, field, replace
from typing import Any, final

from algorithms.families.linear.functions import Functions
from algorithms.families.linear.model import FunctionModel
from algorithms.interface.relations import Relations, relations_of
from algorithms.numerics.arrays import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class SharedFeatureModel(FunctionModel):
    """Functions W of the tasks, and the learned features U.

    Parameters
    ----------
    U : (p, r)
        Features as columns: eigenvectors of D in terms of the values of ``functions.basis``, with
        the most important first. Orthonormal; with a kernel, orthonormal as functions.
    spectrum : (r,)
        Eigenvalues of D in decreasing order, with sum 1: the weights of the features.
    """

    # without field(), dataclass would use the abstract property as a default
    functions: Functions = field()
    U: Array
    spectrum: Array

    def transform(self, X: object, *, task: str) -> Array:
        """Return the learned features Uᵀx, the same for all tasks, (n_samples, r)."""
        rows = self.check_rows(X, method="transform", task=task)
        return self.functions.basis.images(rows, self.U)

    def for_new_tasks(self, names: tuple[str, ...]) -> "SharedFeatureModel":
        """Return the mean of the tasks' functions, as the function of tasks without rows."""
        common = self.functions.mean()
        return replace(self, functions=replace(self.functions, common=common).for_new_tasks(names))

    def learned(self) -> dict[str, Any]:
        """Return also the features and their weights, and the covariance of the tasks.

        The features are in standardised columns; with a kernel there are none. The covariance
        has the inner products of the functions of the tasks.
        """
        arrays = super(SharedFeatureModel, self).learned()
        arrays |= {"feature_weights": self.spectrum, "task_covariance": self.functions.gram()}
        is_linear = self.functions.basis.references is None
        return arrays | {"components": self.U.T} if is_linear else arrays

    def relations(self) -> Relations:
        """Return the relations of the tasks: the cosines between their functions."""
        return relations_of(self.functions.gram(), self.functions.column_names)

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        super(SharedFeatureModel, self).check_stored()
        if self.U.shape != (self.functions.basis.n_outputs, len(self.spectrum)):
            raise ValueError(
                f"U has shape {self.U.shape}, expected {len(self.spectrum)} columns, like the "
                "eigenvalues"
            )
