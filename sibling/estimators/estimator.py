"""The base class of all estimators: parameters, fit, adaptation and files."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.validation import check_is_fitted

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.model import FEATURE_METHODS, Model
from algorithms.interface.trace import Trace
from algorithms.preparation.algorithm import for_model
from algorithms.preparation.model import PreparedModel
from algorithms.registry import ALGORITHMS, load_model, save_model
from sibling.estimators.fitting import (
    fit_model,
    min_rows,
    parse_params,
    parse_recipe,
    warn_of_codes,
    warn_of_fit,
)
from sibling.estimators.inputs import names_of_columns, read_new_task, read_tasks
from sibling.estimators.kinds import Kind, kind_of, kinds_of, takes_three_classes

#: Fitted attributes that the checks of rows set, before there is a model.
_OF_ROWS = ("n_features_in_", "feature_names_in_")


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators.

    Attributes
    ----------
    model_
        The trained model, as the service has it.
    tasks_
        Names of the tasks.
    classes_ : (n_classes,)
        Labels of all tasks, sorted, if the targets are classes.
    n_iter_
        Number of iterations of the fit, at least 1, including those that select parameters.
    metrics_
        Scores on the training rows: ``{metric: {task: value}}``.
    fit_info_
        Further results of the fit, such as chosen parameters.
    """

    _algorithm: ClassVar[Algorithm[Any, Any]]
    model_: Model

    def fit(self, X: Any, y: Any = None, *, tasks: Any = None, groups: Any = None) -> Self:
        """Train a model on the rows of one or several tasks.

        Parameters
        ----------
        X : (n_samples, n_features), or such rows by task
            Arrays or data frames. By task, ``{"a": Xa, "b": Xb}``, the columns may differ if the
            algorithm allows it; matrices (n_samples, n_features, n_features) are covariances.
        y : (n_samples,), or by task
            Targets, unless the algorithm needs none.
        tasks : (n_samples,)
            The task of each row, as text or integers. Default: all rows are of one task.
        groups : (n_samples,), or by task
            The group of each row (a patient, a session). Where parameters are selected, the rows of
            a group are held out together.

        Returns
        -------
        The estimator.

        Raises
        ------
        ValueError
            The rows do not meet the requirements of the algorithm, or a parameter is out of bounds.
        """
        algorithm = self._algorithm
        fields = algorithm.Params.model_fields
        params = parse_params(algorithm, {name: getattr(self, name) for name in fields})
        recipe = parse_recipe(getattr(self, "preparation"))  # noqa: B009 - not known to mypy
        is_needed = algorithm.needs.target != "none"
        kind = kind_of(y, kinds_of(algorithm), target=self._target(), is_needed=is_needed)
        given = read_tasks(
            self,
            X,
            y,
            tasks=tasks,
            groups=groups,
            needs=algorithm.needs,
            kind=kind,
            min_rows=min_rows(algorithm, params, kind),
        )
        if self._target() == "auto":
            warn_of_codes(given)
        trace = Trace()
        seed = getattr(self, "random_state")  # noqa: B009 - as above
        model = fit_model(algorithm, given, params, recipe=recipe, trace=trace, seed=seed)
        self._set_columns(
            {task.name: (task.n_features, task.feature_names) for task in given.tasks}
        )
        self._set_model(model)
        if given.classes is not None:
            self.classes_ = given.classes
        self.n_iter_ = max(trace.n_iterations, 1)
        objective = algorithm.final_objective(params, trace)
        if objective is not None and not hasattr(self, "objective_"):
            self.objective_ = objective
        warn_of_fit(model)
        return self

    def adapt(self, X: Any, y: Any = None, *, task: str, groups: Any = None) -> Self:
        """Add a task to the model, trained on its rows while the other tasks stay fixed.

        Parameters
        ----------
        X : (n_samples, n_features)
            Rows of the new task.
        y : (n_samples,)
            Targets, of the same kind as those of the other tasks.
        task
            Name of the new task.
        groups : (n_samples,)
            The group of each row, as in :meth:`fit`.

        Returns
        -------
        The estimator, whose learned quantities are then those of all tasks.

        Raises
        ------
        ValueError
            The algorithm cannot add a task, the model already has it, or the rows do not fit.
        """
        check_is_fitted(self)
        kind: Kind | None = None
        if y is not None and kinds_of(self._algorithm):
            kind = "classes" if hasattr(self, "classes_") else "numbers"
        given = read_new_task(self, X, y, task=task, groups=groups, kind=kind)
        adapting = for_model(self._algorithm, self.model_, given.columns)
        (new,) = given.tasks
        model = adapting.adapt(self.model_, new, trace=Trace())
        old = [self.classes_] if given.classes is not None else []
        self._names_by_task[new.name] = new.feature_names
        self._set_model(model)
        if given.classes is not None:
            self.classes_ = np.unique(np.concatenate([*old, given.classes]))
        return self

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trained model to a file without executable code.

        The file is that of a job with the same tasks, parameters and seed, byte for byte. It has no
        parameters of the estimator.
        """
        check_is_fitted(self)
        save_model(self.model_, Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return an estimator with the model in a file that :meth:`save` or the service wrote.

        Parameters that a new :meth:`fit` would use have their defaults.

        Raises
        ------
        InvalidArtifact
            The file is not a model, or a model of another algorithm.
        """
        model = load_model(Path(path))
        if model.algorithm != cls._algorithm.name:
            right = type(ALGORITHMS[model.algorithm]).__name__
            raise InvalidArtifact(
                f"'{Path(path).name}' is a model of {right}; load it with {right}.load"
            )
        made = cls()
        made._set_columns({task: _columns_of(model, task) for task in model.tasks})
        made._set_model(model)
        labels = [label for task in model.tasks for label in model.classes(task)]
        if labels:
            made.classes_ = np.unique(labels)
        return made

    def _set_columns(self, columns: Mapping[str, tuple[int, tuple[str, ...] | None]]) -> None:
        """Set the number and the names of the columns of each task."""
        self._names_by_task = {task: names for task, (_, names) in columns.items()}
        for name in _OF_ROWS:
            if hasattr(self, name):
                delattr(self, name)
        if len(set(columns.values())) == 1:
            self.n_features_in_, names = next(iter(columns.values()))
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)

    def _set_model(self, model: Model) -> None:
        """Set the attributes that the model determines, and remove those of an earlier fit."""
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_") and name not in _OF_ROWS:
                delattr(self, name)
        self.model_ = model
        self.tasks_ = model.tasks
        self.metrics_ = model.metrics
        self.fit_info_ = dict(getattr(model, "fit_info", {}))
        for name, value in model.learned().items():
            setattr(self, f"{name}_", value)

    def _target(self) -> str:
        """Return the parameter ``target``, which not every estimator has."""
        return str(getattr(self, "target", "auto"))

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model."""
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn should know of the estimator."""
        tags = super().__sklearn_tags__()
        needs, kinds = self._algorithm.needs, kinds_of(self._algorithm)
        tags.input_tags.allow_nan = True
        tags.target_tags.required = needs.target != "none"
        kind = self._target()
        if needs.target == "classes":
            kind = "classes"
        elif kind == "auto" and len(kinds) == 2 and hasattr(self, "model_"):
            kind = "classes" if hasattr(self, "classes_") else "numbers"
        if kind == "classes":
            is_general = takes_three_classes(self._algorithm)
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=is_general)
        elif kind == "numbers":
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags


def _columns_of(model: Model, task: str) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of columns of a task, and their names if the model has them."""
    names = None
    if isinstance(model, PreparedModel):
        names = names_of_columns(model.preparation.of(task).columns)
    method = next(method for method in model.methods() if method in FEATURE_METHODS)
    return model.width(method, task=task), names
