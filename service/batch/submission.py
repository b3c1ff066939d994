"""Validation and submission of batch inference jobs."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.orm import Session

from algorithms.interface.errors import AlgorithmError, InvalidData, UnknownTask
from algorithms.interface.methods import FEATURE_METHODS, LEVEL_METHODS
from algorithms.interface.model import Model
from algorithms.interface.tasks import unknown_task
from algorithms.wrappers.new_tasks import for_tasks
from service.access.quotas import check_stored_bytes, check_upload
from service.batch.context import BatchServices
from service.batch.schemas import InferenceSpec
from service.datasets.column_orders import pack_orders
from service.datasets.manifest import empty_of_manifest, feature_names_by_task
from service.datasets.number_writings import NumberWritings, check_units
from service.datasets.view import DatasetView
from service.errors.problems import Problem, from_algorithm_error
from service.errors.validation import entry_at
from service.inference.call import InputSpec
from service.inference.formats.table import positions_of
from service.jobs.limits import check_limits, limits_of
from service.jobs.queue import store
from service.jobs.reading import new_job
from service.jobs.schemas import Job
from service.jobs.studies.child_jobs import INFER, Plan
from service.jobs.submission import Origin, check_queue_limit, find_submitted
from service.models.columns import NamesByTask
from service.models.messages import unknown_model, unsupported_method
from service.models.store import ServableVersion, get_version
from service.storage.tables import DatasetRow

#: Limit on the errors in one response.
_MAX_ERRORS: Final = 20
_MAX_NAME: Final = 200

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ValidatedInference:
    """A valid batch inference: model version, plan and number of rows."""

    served: ServableVersion
    plan: Plan
    n_rows: int


def submit(services: BatchServices, spec: InferenceSpec, origin: Origin) -> Job:
    """Create a job; return the existing one if the same request was sent before.

    Raises
    ------
    Problem, AlgorithmError
        The specification is invalid; nothing is stored.
    """
    with services.database.write() as session:
        existing = find_submitted(session, origin)
    if existing is not None:
        return existing
    # outside the transaction: loading a model may take long
    validated = prepare(services, spec, origin.owner)
    with services.database.write() as session:
        return _create(session, services, spec, origin, validated)


def prepare(services: BatchServices, spec: InferenceSpec, owner: str) -> ValidatedInference:
    """Validate a specification as far as possible without reading rows.

    Raises
    ------
    Problem, AlgorithmError
        The specification is invalid.
    """
    check_limits(spec, services.settings)
    served = services.resolver.find_any(owner, spec.model, spec.version)
    if served is None:
        detail = unknown_model(spec.model, spec.version)
        raise Problem("not-found", detail, errors=[entry_at("/model", detail)])
    if spec.method not in served.methods:
        detail = unsupported_method(served, spec.method)
        raise Problem("unsupported-method", detail, errors=[entry_at("/method", detail)])
    if spec.level is not None and spec.method not in LEVEL_METHODS:
        detail = f"{spec.method} takes no level, only {' and '.join(sorted(LEVEL_METHODS))} do"
        raise Problem("invalid-request", detail, errors=[entry_at("/level", detail)])
    with services.database.read() as session:
        dataset = DatasetView.find(session, spec.dataset_id, owner=owner)
    model = services.models.get(served)
    entries = {entry["name"]: entry for entry in dataset.manifest["tasks"]}
    tasks = _tasks(spec, entries)
    model, new_tasks = _for_tasks(model, spec, tasks)
    model_columns = services.columns.of(served.id) if spec.method in FEATURE_METHODS else {}
    ignored = services.columns.ignored(served.id)
    names = feature_names_by_task(dataset.manifest)
    empty = empty_of_manifest(dataset.manifest)
    orders = _ColumnOrders(
        model,
        spec,
        names,
        model_columns,
        ignored,
        served.task_column,
        empty,
        given=NumberWritings.of_manifest(dataset.manifest),
        wanted=services.columns.numbers(served.id),
    ).orders(tasks, entries)
    has_labels = _has_labels(model, spec.method, tasks)
    plan: Plan = {
        "kind": INFER,
        "model": served.name,
        "version": served.version,
        "version_id": served.id,
        "method": spec.method,
        "level": spec.level,
        "dataset_id": dataset.row.id,
        "tasks": tasks,
        "new_tasks": list(new_tasks),
        "mapping": spec.tasks,  # None means all tasks: listing them would make the response long
        "columns": pack_orders(orders, {name: entries[name]["n_features"] for name in orders}),
        "makes_dataset": spec.makes_dataset and not has_labels,
        "dataset_name": spec.dataset_name or _dataset_name(served, spec.method, dataset.row),
        "threads": spec.threads or services.threads,
    }
    return ValidatedInference(served, plan, sum(entries[name]["n_samples"] for name in tasks))


def _create(
    session: Session,
    services: BatchServices,
    spec: InferenceSpec,
    origin: Origin,
    validated: ValidatedInference,
) -> Job:
    existing = find_submitted(session, origin)
    if existing is not None:
        return existing
    served = validated.served
    # both may have been deleted since the validation
    DatasetView.find(session, spec.dataset_id, owner=origin.owner)
    if get_version(session, origin.owner, served.name, served.version) is None:
        raise Problem(
            "not-found", f"version {served.version} of model '{served.name}' has been deleted"
        )
    check_queue_limit(session, origin.owner, services.settings)
    if validated.plan["makes_dataset"]:
        check_upload(session, origin.owner, services.settings, size_bytes=1)
    else:
        check_stored_bytes(session, origin.owner, services.settings, more_bytes=1)
    job = store.NewJob(
        owner=origin.owner,
        dataset_id=spec.dataset_id,
        algorithm=served.algorithm,
        params={},
        seed=0,
        model_name=served.name,
        traceparent=origin.traceparent,
        plan=validated.plan,
        **limits_of(spec, services.settings),
    )
    row = store.create(session, job)
    origin.remember(session, row.id)
    return new_job(row)


def _tasks(spec: InferenceSpec, entries: Mapping[str, Entry]) -> dict[str, str]:
    """Return the tasks to compute, each with the model's task that computes it."""
    if spec.tasks is None:
        return {name: name for name in entries}
    for name in spec.tasks:
        if name not in entries:
            error = unknown_task(name, tuple(entries))
            detail = f"the dataset has no such task: {error.message}"
            entry = {**entry_at("/tasks", detail), "code": "unknown-task", "task": name}
            raise Problem("unknown-task", detail, errors=[entry])
    return spec.tasks


def _for_tasks(
    model: Model, spec: InferenceSpec, tasks: Mapping[str, str]
) -> tuple[Model, tuple[str, ...]]:
    """Return the model for some tasks, and which of these it was not trained on.

    Each of the errors of a model that does not have the tasks is found later.
    """
    if (spec.new_tasks or model.new_tasks) == "refuse":
        return model, ()
    try:
        return for_tasks(model, tasks.values(), spec.new_tasks)
    except UnknownTask as error:
        detail = error.message
        entry = {**entry_at("/new_tasks", detail), "code": "unknown-task", "task": error.task}
        raise Problem("unknown-task", detail, errors=[entry]) from None


@dataclass(frozen=True, slots=True)
class _ColumnOrders:
    """Column orders of tasks of a dataset for a method of a model."""

    model: Model
    spec: InferenceSpec
    names: NamesByTask
    model_columns: NamesByTask
    ignored: frozenset[str]
    task_column: str
    empty: Collection[str]
    given: NumberWritings
    wanted: NumberWritings

    def orders(
        self, tasks: Mapping[str, str], entries: Mapping[str, Entry]
    ) -> Mapping[str, list[int]]:
        """Return the column order of each task.

        Raises
        ------
        Problem
            The model cannot be applied to a task.
        """
        errors: list[dict[str, Any]] = []
        orders = {
            name: order
            for name, model_task in tasks.items()
            for order in self._order(entries[name], model_task, errors)
        }
        if errors:
            first = errors[0]
            raise Problem(first["code"], first["detail"], errors=errors[:_MAX_ERRORS])
        return orders

    def _order(
        self, entry: Entry, model_task: str, errors: list[dict[str, Any]]
    ) -> Iterator[list[int]]:
        """Yield the column order of a task, or append an error."""
        name, method = entry["name"], self.spec.method
        location = {"task": name, "pointer": "/dataset_id" if self.spec.tasks is None else "/tasks"}
        if entry["input"] != "rows":
            detail = f"task '{name}' has {entry['input']}; {method} expects rows"
            errors.append({**location, "code": "invalid-data", "detail": detail})
            return
        try:
            width = self.model.width(method, task=model_task)
            shared = next(iter(self.model_columns.values()), None)  # of tasks not trained
            columns = self.model_columns.get(model_task, shared)
            input_spec = InputSpec(
                model_task,
                method,
                width,
                allow_missing=False,
                columns=lambda: columns,
                ignored=lambda: self.ignored,
            )
            self._check_divided(name, columns)
            used = columns or self.names[name] or ()
            check_units(used, self.given, self.wanted, task=name)
            # the model takes columns that have no value in this table, which has left them out
            empty = [column for column in columns or () if column in self.empty]
            names = self.names[name]
            names = None if names is None else (*names, *empty)
            yield positions_of(names, entry["n_features"] + len(empty), input_spec)
        except (AlgorithmError, Problem) as error:
            problem = from_algorithm_error(error) if isinstance(error, AlgorithmError) else error
            detail = f"task '{name}' of the dataset: {problem.detail}"
            error_entry = {**problem.errors[0], **location}
            errors.append({**error_entry, "code": problem.code, "detail": detail})

    def _check_divided(self, name: str, columns: tuple[str, ...] | None) -> None:
        """Raise InvalidData if a task of the dataset has the model's task column as a feature."""
        column = self.task_column
        if column in (self.names[name] or ()) and column not in (columns or (column,)):
            detail = f"it has the model's column of tasks, '{column}', among its features"
            detail = f"{detail}; upload the table with task_column={column}"
            raise InvalidData(detail, task=name, column=column)


def _has_labels(model: Model, method: str, tasks: Mapping[str, str]) -> bool:
    """Return whether the outputs are labels; raise a Problem if that differs between tasks."""
    if method != "predict":
        return False
    kinds: dict[str, str] = {}
    for name, model_task in tasks.items():
        labels = model.classes(model_task)
        kinds.setdefault(type(labels[0]).__name__ if labels else "float", name)
    if len(kinds) > 1:
        (kind, first), (other, second) = list(kinds.items())[:2]
        detail = (
            f"predictions have type {kind} for task '{first}', but {other} for task '{second}'; "
            "select tasks, and compute these in separate jobs"
        )
        entry = {**entry_at("/tasks", detail), "code": "invalid-data", "task": second}
        raise Problem("invalid-data", detail, errors=[entry])
    return "float" not in kinds


def _dataset_name(served: ServableVersion, method: str, dataset: DatasetRow) -> str:
    return f"{method} of {dataset.name} by {served.name}/{served.version}"[:_MAX_NAME]
