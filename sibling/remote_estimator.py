"""A scikit-learn estimator that a service trains and applies."""

from contextlib import suppress
from functools import partial
from typing import Any, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if

from algorithms.interface.errors import InvalidData, NotInstalled
from algorithms.interface.methods import METHODS
from algorithms.interface.tasks import Task
from algorithms.wrappers.new_tasks import check_new_tasks
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.weights import weighted
from sibling.client import Client, RemoteModel
from sibling.estimators.estimator import Estimator, class_weight_of
from sibling.estimators.fitting import check_fit, parse_calibration, parse_recipe, read_fit
from sibling.estimators.methods import CALL_REQUEST, Transformer, make_call, score


class RemoteEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Estimator that is trained by a job of a service, and whose methods call the model there.

    Parameters
    ----------
    estimator
        An estimator of this package with the parameters, such as ``MTFL(gamma=1.0)``; it is not
        fitted itself. In a search its parameters are ``estimator__gamma`` etc.
    client
        Client of the service. Default: ``Client()``. Copies of this estimator share it.
    model
        Name of the model in the service, of which each fit makes a version. Default: the name of
        the algorithm.

    Attributes
    ----------
    model_
        The model in the service.
    tasks_
        Names of the tasks.
    metrics_
        Scores on the training rows: ``{metric: {task: value}}``.
    classes_ : (n_classes,)
        Labels of all tasks, sorted, if the targets are classes.
    report_, verdict_
        As those of :class:`Auto`, if that is the estimator.
    """

    model_: RemoteModel
    __metadata_request__fit = {"tasks": True, "groups": True}  # noqa: RUF012 - read by scikit-learn
    __metadata_request__score = {"tasks": True}  # noqa: RUF012 - as above

    def __init__(
        self, estimator: Estimator, *, client: Client | None = None, model: str | None = None
    ) -> None:
        self.estimator = estimator
        self.client = client
        self.model = model

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        tasks: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Upload the rows, submit a job, and wait for its model.

        The parameters are those of :meth:`Estimator.fit`.

        Raises
        ------
        ValueError
            The rows do not meet the requirements of the algorithm, or a parameter is out of bounds.
        ServiceError, ServiceUnreachable, JobFailed
            The service rejects the data, cannot be reached, or the job fails.
        """
        spec = self.estimator
        algorithm = spec._algorithm  # noqa: SLF001 - of the estimators
        for name in [name for name in vars(self) if name.endswith("_")]:  # of an earlier fit
            delattr(self, name)
        params, given = read_fit(
            self, spec, X, y, tasks=tasks, groups=groups, sample_weight=sample_weight
        )
        class_weight = class_weight_of(spec)
        calibration = parse_calibration(spec.calibration)
        if any(column.kind != "number" for column in given.columns or ()):
            raise InvalidData(
                "a remote estimator takes columns of numbers; encode the others, or upload the "
                "table with Client.upload and train with Client.train"
            )
        with suppress(NotInstalled):  # here, where it is not needed
            has_weights = any(task.weights is not None for task in given.tasks)
            recipe = parse_recipe(spec.preparation)
            ready = prepared(algorithm, given.columns, recipe)
            check_new_tasks(ready, params, spec.new_tasks)
            ready = weighted(algorithm, class_weight, has_weights=has_weights)
            check_fit(ready, given, params)
        own = list(given.tasks)
        options: Any = {} if given.kind is None else {"target_kind": given.kind}
        client = self.client or Client()
        dataset = client.upload(
            {task.name: _rows(task) for task in own},
            {task.name: task.y for task in own if task.y is not None},
            groups={task.name: task.groups for task in own if task.groups is not None},
            sample_weight={task.name: task.weights for task in own if task.weights is not None},
            name=self.model or algorithm.name,
            **options,
        )
        job = client.submit(
            dataset,
            algorithm.name,
            params.model_dump(mode="json", include=params.model_fields_set),
            model=self.model,
            seed=spec.random_state,
            preparation=spec.preparation,
            calibration=None if calibration is None else calibration.model_dump(exclude_unset=True),
            class_weight=class_weight,
            new_tasks=spec.new_tasks,
            ties=spec.ties,
        )
        self.model_ = job.wait()
        self.tasks_ = self.model_.tasks
        self.metrics_ = self.model_.metrics
        if algorithm.name == "auto":
            self.report_ = self.model_.report()
            self.verdict_ = self.report_["choice"]["together_or_apart"]["verdict"]
        self._task_column, self._left_out = given.task_column, given.left_out
        self._names_by_task = {task.name: task.feature_names for task in own}
        if given.classes is not None:
            self.classes_ = given.classes
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model."""
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn should know of the estimator."""
        return get_tags(self.estimator)


def _rows(task: Task) -> Any:
    """Return the rows of a task, with the names of its columns if they have any."""
    if task.input != "rows":
        raise InvalidData(f"task '{task.name}' has covariances; upload them in a file of .npz")
    if task.feature_names is None:
        return task.X
    import pyarrow as pa

    return pa.table(dict(zip(task.feature_names, task.X.T, strict=True)))


def _is_available(estimator: RemoteEstimator, *, name: str) -> bool:
    if hasattr(estimator, "model_"):
        # where targets are numbers, scikit-learn has no decision function
        is_known = name != "decision_function" or hasattr(estimator, "classes_")
        return is_known and name in estimator.model_.info["methods"]
    return hasattr(estimator.estimator, name)


def _add_method(name: str) -> None:
    method = make_call(name)
    method.__doc__ = getattr(RemoteModel, name).__doc__
    setattr(RemoteEstimator, name, available_if(partial(_is_available, name=name))(method))
    setattr(RemoteEstimator, f"__metadata_request__{name}", CALL_REQUEST)


for _name in METHODS:
    _add_method(_name)
RemoteEstimator.score = available_if(partial(_is_available, name="predict"))(score)
RemoteEstimator.fit_transform = available_if(partial(_is_available, name="transform"))(
    Transformer.fit_transform
)
