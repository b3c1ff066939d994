"""The base class of all estimators: parameters, fit, adaptation and files."""

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.validation import check_is_fitted

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.methods import FEATURE_METHODS
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.trace import Trace
from algorithms.interface.weights import ClassWeight
from algorithms.numerics.threads import limit_blas_threads
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.wrappers.calibration.algorithm import cannot_adapt
from algorithms.wrappers.calibration.model import CalibratedModel
from algorithms.wrappers.preparation.algorithm import for_model
from algorithms.wrappers.preparation.model import preparation_of
from algorithms.wrappers.weights import own_class_weight, weighted
from sibling.estimators.exporting import Exports
from sibling.estimators.fitting import (
    fit_model,
    parse_calibration,
    parse_class_weight,
    parse_recipe,
    read_fit,
    takes_sparse_rows,
    tied,
    warn_of_codes,
    warn_of_fit,
)
from sibling.estimators.inputs import Given, names_of_columns, read_new_task
from sibling.estimators.kinds import Kind, kinds_of, takes_three_classes

if TYPE_CHECKING:  # the plots are imported when one is made
    from sibling.charts import Theme

#: Fitted attributes that the checks of rows set, before there is a model.
_OF_ROWS = ("n_features_in_", "feature_names_in_")

#: Recorded quantities of the steps of a fit.
_HISTORY = ("loop", "iteration", "objective", "residual")
#: Attributes of the last fit that the model does not have, and that an adaptation keeps.
_OF_FIT = ("history_", "n_iter_", "report_", "verdict_")


class Estimator(Exports, BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators.

    Attributes
    ----------
    model_
        The trained model, as the service has it.
    tasks_
        Names of the tasks.
    classes_ : (n_classes,)
        Labels of all tasks, sorted, if the targets are classes.
    history_
        Recorded steps of the fit, by column: loop, iteration, objective and residual.
    n_iter_
        Number of iterations of the fit, at least 1, including iterations that select parameters.
    metrics_
        Scores on the training rows: ``{metric: {task: value}}``.
    fit_info_
        Further results of the fit, such as chosen parameters.
    """

    _algorithm: ClassVar[Algorithm[Any, Any]]
    # parameters that the constructor of every estimator has
    preparation: Any
    calibration: Any
    new_tasks: Any
    random_state: Any
    model_: Model

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        tasks: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Train a model on the rows of one or several tasks.

        Parameters
        ----------
        X : (n_samples, n_features), or such rows by task
            Arrays, data frames, or sparse matrices of scipy if the algorithm takes them. By task,
            ``{"a": Xa, "b": Xb}``, the columns may differ if the algorithm allows it; matrices
            (n_samples, n_features, n_features) are covariances.
        y : (n_samples,), or by task
            Targets, unless the algorithm needs none.
        tasks : (n_samples,)
            The task of each row, as text or integers. Default: all rows are of one task. The model
            keeps the name of a column of a data frame, under which later rows may have it.
        groups : (n_samples,), or by task
            The group of each row (a patient, a session). Where parameters are selected, the rows of
            a group are held out together.
        sample_weight : (n_samples,), or by task
            The weight of each row, at least 0, if the algorithm uses weights. They are scaled to
            mean 1 in each task, so a common factor changes nothing. Default: equal weights.

        Returns
        -------
        The estimator.

        Raises
        ------
        ValueError
            The rows do not meet the requirements of the algorithm, or a parameter is out of bounds.
        """
        params, data = read_fit(
            self, self, X, y, tasks=tasks, groups=groups, sample_weight=sample_weight
        )
        if self._target() == "auto":
            warn_of_codes(data)
        trace = Trace()
        model, found = self._train(tied(data, self.ties), params, trace)
        self._set_columns({task.name: (task.n_features, task.feature_names) for task in data.tasks})
        self._set_model(
            model.with_task_column(data.task_column).with_ignored_columns(data.left_out)
        )
        if data.classes is not None:
            self.classes_ = data.classes
        self.history_ = {name: [getattr(s, name) for s in trace.history] for name in _HISTORY}
        self.n_iter_ = max(trace.n_iterations, 1)
        objective = self._algorithm.final_objective(params, trace)
        if objective is not None and not hasattr(self, "objective_"):
            self.objective_ = objective
        for name, value in found.items():
            setattr(self, name, value)
        warn_of_fit(model)
        return self

    def _train(self, data: Given, params: Params, trace: Trace) -> tuple[Model, dict[str, Any]]:
        """Return the model of some tasks, and further attributes of the fit."""
        model = fit_model(
            self._algorithm,
            data,
            params,
            recipe=parse_recipe(self.preparation),
            calibration=parse_calibration(self.calibration),
            class_weight=class_weight_of(self),
            new_tasks=self.new_tasks,
            trace=trace,
            seed=self.random_state,
        )
        return model, {}

    def adapt(
        self,
        X: Any,
        y: Any = None,
        *,
        task: str | int,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Add a task to the model, trained on its rows while the other tasks stay fixed.

        Parameters
        ----------
        X : (n_samples, n_features)
            Rows of the new task.
        y : (n_samples,)
            Targets, of the same kind as the targets of the other tasks.
        task
            Name of the new task, as text or an integer.
        groups : (n_samples,)
            The group of each row, as in :meth:`fit`.
        sample_weight : (n_samples,)
            The weight of each row, as in :meth:`fit`.

        Returns
        -------
        The estimator, whose learned quantities then cover all tasks. ``history_`` and ``n_iter_``
        still describe the fit.

        Raises
        ------
        ValueError
            The algorithm cannot add a task, the model already has it, or the rows do not fit.
        """
        check_is_fitted(self)
        kind: Kind | None = None
        if y is not None and kinds_of(self._algorithm):
            kind = "classes" if hasattr(self, "classes_") else "numbers"
        data = read_new_task(
            self, X, y, task=task, groups=groups, sample_weight=sample_weight, kind=kind
        )
        (new,) = data.tasks
        if isinstance(self.model_, CalibratedModel):
            raise cannot_adapt(new.name)
        adapting = for_model(ALGORITHMS[self.model_.algorithm], self.model_, data.columns)
        adapting = weighted(adapting, None, has_weights=new.weights is not None)
        with limit_blas_threads(data.tasks.order):
            model = adapting.adapt(self.model_, new, trace=Trace())
        old = [self.classes_] if data.classes is not None else []
        self._names_by_task[new.name] = new.feature_names
        of_fit = {name: value for name, value in vars(self).items() if name in _OF_FIT}
        model = model.with_task_column(self._task_column).with_new_tasks(self.model_.new_tasks)
        model = model.with_ignored_columns(self._left_out)
        self._set_model(model)
        for name, value in of_fit.items():
            setattr(self, name, value)
        if data.classes is not None:
            self.classes_ = np.unique(np.concatenate([*old, data.classes]))
        return self

    def plot(
        self,
        name: str | None = None,
        X: Any = None,
        y: Any = None,
        *,
        tasks: Any = None,
        theme: "Theme" = "light",
    ) -> Any:
        """Return a plot of the model as a chart of altair, which notebooks show.

        Parameters
        ----------
        name
            Name of a plot, such as ``"relations"``. Default: return the names of the available
            plots, including plots that need rows.
        X, y, tasks
            Rows, as for ``score``, for the plots of predictions: ``"predictions"``,
            ``"residuals"``, ``"confusion"``, ``"roc"``.
        theme
            Colours: ``"light"`` or ``"dark"``.

        Raises
        ------
        NoPlot
            There is nothing that the plot could show, or it needs rows.
        ValueError
            The rows, their targets or the theme are not as the plot needs them.
        MissingPackage
            altair is not installed.
        """
        from sibling.charts import as_chart
        from sibling.estimators.plotting import plots_of_rows, source_of
        from sibling.plots import available, specification

        check_is_fitted(self)
        source = source_of(self, X, y, tasks)
        if name is None:
            return list(available(source)) + (plots_of_rows(self) if X is None else [])
        return as_chart(specification(name, source, theme=theme))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trained model to a file without executable code.

        The file equals the file of a job with the same tasks, parameters and seed, byte for byte,
        on the same kind of processor and with the same versions. With more than 512 rows or columns
        the last digits also depend on the number of BLAS threads: set ``threads`` of the job, and
        here the limit of :mod:`threadpoolctl`. The file has no parameters of the estimator.
        """
        check_is_fitted(self)
        model = self.model_.with_task_column(self._task_column).with_ignored_columns(self._left_out)
        save_model(model, Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return an estimator with the model in a file that :meth:`save` or the service wrote.

        Parameters that a new :meth:`fit` would use have their defaults. A file has no steps of the
        fit, so there is no ``history_`` and no ``n_iter_``.

        Raises
        ------
        InvalidArtifact
            The file is not a model, or a model of another algorithm.
        """
        model = load_model(Path(path))
        if model.algorithm not in cls._loads():
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

    @classmethod
    def _loads(cls) -> Collection[str]:
        """Return the names of the algorithms whose models can be loaded."""
        return (cls._algorithm.name,)

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
        """Set the attributes that the model determines, and remove attributes of an earlier fit."""
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_") and name not in _OF_ROWS:
                delattr(self, name)
        self.model_ = model
        self._task_column, self._left_out = model.task_column, model.ignored_columns
        self.tasks_ = model.tasks
        self.metrics_ = model.metrics
        self.fit_info_ = dict(getattr(model, "fit_info", {}))
        for name, value in model.learned().items():
            setattr(self, f"{name}_", value)

    def _target(self) -> str:
        """Return the parameter ``target``, which not every estimator has."""
        return str(getattr(self, "target", "auto"))

    def _values(self) -> dict[str, Any]:
        """Return the parameters of the algorithm; weights by class are no parameter of any."""
        values = {name: getattr(self, name) for name in self._algorithm.Params.model_fields}
        if isinstance(values.get("class_weight"), Mapping):
            del values["class_weight"]
        return values

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model."""
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the estimator for scikit-learn."""
        tags = super().__sklearn_tags__()
        needs, kinds = self._algorithm.needs, kinds_of(self._algorithm)
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = takes_sparse_rows(self._algorithm, self._values())
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


def class_weight_of(estimator: Any) -> ClassWeight | None:
    """Return the weights of classes of an estimator that are no parameter of its algorithm."""
    class_weight = parse_class_weight(getattr(estimator, "class_weight", None))
    return own_class_weight(estimator._algorithm, class_weight)[1]  # noqa: SLF001 - of the estimators


def _columns_of(model: Model, task: str) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of columns of a task, and their names if the model has them."""
    preparation = preparation_of(model)
    names = None if preparation is None else names_of_columns(preparation.of(task).columns)
    method = next(method for method in model.methods() if method in FEATURE_METHODS)
    return model.width(method, task=task), names
