"""The model of MTFL: functions of the tasks, and the features they share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.relations import Relations, relations_of
from algorithms.linear.functions import Functions
from algorithms.linear.model import FunctionModel

Array = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class SharedFeatureModel(FunctionModel):
    """Functions W of the tasks, and the learned features U.

    Parameters
    ----------
    U : (p, r)
        Columns are the features, eigenvectors of D, the most important first; on the numbers of
        ``functions.basis``. Orthonormal without a kernel; with one, as functions.
    spectrum : (r,)
        Eigenvalues of D, falling; they sum to 1 and tell how much each feature is used.
    """

    # field() keeps the abstract property from being taken for a default
    functions: Functions = field()
    U: Array
    spectrum: Array

    def transform(self, X: object, *, task: str) -> Array:
        """Return the learned features Uᵀx of rows; they are the same for all tasks.

        Parameters
        ----------
        X : (n_samples, n_features)

        Returns
        -------
        (n_samples, r)
        """
        return self.functions.basis(self.check_rows(X, method="transform", task=task)) @ self.U

    def relations(self) -> Relations:
        """Return how much the functions of the tasks are alike: the cosines between them."""
        return relations_of(self.functions.gram(), self.functions.column_names)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        return {**self.functions.to_arrays(), "U": self.U, "spectrum": self.spectrum}

    def header(self) -> dict[str, Any]:
        """Return what is not an array, as JSON."""
        return self.functions.header()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` and ``header`` described.

        Raises
        ------
        ValueError
            The arrays do not fit each other.
        """
        model = cls(Functions.from_arrays(arrays, header), arrays["U"], arrays["spectrum"])
        if model.U.shape != (model.functions.basis.n_outputs, len(model.spectrum)):
            raise ValueError(f"U {model.U.shape} does not fit {len(model.spectrum)} eigenvalues")
        return model
