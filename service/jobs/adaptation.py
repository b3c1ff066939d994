"""Jobs that add tasks to a model: the model, and the plan."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.needs import refuse_sparse_adaptation
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.ties import DEFAULT_TIES
from algorithms.wrappers.calibration.model import CALIBRATED_METHODS
from algorithms.wrappers.preparation.column_matching import match_columns
from service.datasets.column_orders import pack_orders
from service.datasets.manifest import summaries
from service.datasets.number_writings import NumberWritings, check_units
from service.datasets.suitability import check_weights
from service.errors.problems import Problem
from service.errors.validation import entry_at
from service.jobs.spec_schemas import AdaptOptions, JobSpec
from service.jobs.studies.child_jobs import Plan
from service.jobs.studies.plans import plan_adaptation
from service.models.columns import column_names, left_out_names, number_writings
from service.models.messages import unknown_model
from service.models.store import NamedVersion, get_version
from service.storage.tables import DatasetRow


def find_adapted(
    session: Session,
    spec: JobSpec,
    options: AdaptOptions,
    algorithm: Algorithm[Any, Any],
    *,
    owner: str,
) -> NamedVersion:
    """Return the model version to adapt.

    Raises
    ------
    Problem
        The version does not exist, or the options are invalid for it.
    """
    version = get_version(session, owner, options.model, options.version)
    if version is None:
        detail = unknown_model(options.model, options.version)
        model_exists = get_version(session, owner, options.model, None) is not None
        pointer = "/adapt/version" if model_exists else "/adapt/model"
        raise Problem("not-found", detail, errors=[entry_at(pointer, detail)])
    for value, field in (
        (spec.params, "params"),
        (spec.search, "search"),
        (spec.compare, "compare"),
        (spec.evaluate, "evaluate"),
        (spec.preparation, "preparation"),
        (spec.calibration, "calibration"),
        (spec.class_weight, "class_weight"),
        (spec.new_tasks != DEFAULT_NEW_TASKS, "new_tasks"),
        (spec.ties != DEFAULT_TIES, "ties"),
    ):
        if value:
            detail = f"'{field}' cannot be combined with 'adapt': the model keeps its parameters"
            raise Problem("invalid-request", detail, errors=[entry_at(f"/{field}", detail)])
    if version.row.algorithm != algorithm.name:
        detail = (
            f"'{options.model}' was trained by {version.row.algorithm}, not by {algorithm.name}"
        )
        raise Problem("invalid-request", detail, errors=[entry_at("/algorithm", detail)])
    added = CALIBRATED_METHODS - set(algorithm.Model.methods())
    if added & set(version.row.methods) or (version.row.report or {}).get("calibration"):
        detail = f"'{options.model}' has a calibration, which has no rows of new tasks"
        detail = f"{detail}; train without calibration, or train a new model with all tasks"
        raise Problem("invalid-request", detail, errors=[entry_at("/adapt/model", detail)])
    if not algorithm.supports_adaptation():
        detail = f"{algorithm.name} cannot add tasks to a trained model; train a new one"
        raise Problem("invalid-request", detail, errors=[entry_at("/adapt", detail)])
    return version


def plan_to_adapt(
    session: Session,
    version: NamedVersion,
    tasks: Sequence[TaskSummary],
    algorithm: Algorithm[Any, Any],
    written: NumberWritings,
) -> Plan:
    """Return the plan to add tasks to a stored model.

    Parameters
    ----------
    version
        Version from :func:`find_adapted`.
    tasks
        Summaries of the new tasks.
    written
        How the numbers of their table were written.

    Raises
    ------
    InvalidData
        The model has a task of this name, or its columns differ.
    """
    of_model = session.get_one(DatasetRow, version.row.dataset_id).manifest
    assert of_model is not None  # a model was trained on it
    refuse_sparse_adaptation(tasks, algorithm=algorithm.name)
    check_weights(algorithm, tasks)
    width = summaries(of_model)[0].n_features
    columns_of_model = next(iter(column_names(session, version.row.id).values()))
    ignored = left_out_names(session, version.row.id)
    wanted = number_writings(session, version.row.id)
    orders = {}
    for task in tasks:
        if task.name in version.row.tasks:
            detail = f"the model already has a task '{task.name}'; choose another name"
            raise InvalidData(detail, task=task.name)
        if algorithm.needs.same_features:
            orders[task.name] = _order_of(task, columns_of_model, width, ignored)
            check_units(columns_of_model or (), written, wanted, task=task.name)
    columns = pack_orders(orders, {task.name: task.n_features for task in tasks})
    return plan_adaptation(
        version.row.id, model=version.name, version=version.row.version, columns=columns
    )


def _order_of(
    task: TaskSummary,
    model_columns: tuple[str, ...] | None,
    width: int,
    ignored: frozenset[str],
) -> list[int]:
    """Return the positions of the model's columns in a new task, matched by name if possible.

    Parameters
    ----------
    model_columns
        Names of the columns that the model was trained on.
    ignored
        Names of columns of the training tables that it does not use.
    """
    if model_columns is not None and task.feature_names is not None:
        subject = f"task '{task.name}' needs the columns that the model was trained on"
        return match_columns(
            task.feature_names, model_columns, subject=subject, task=task.name, ignored=ignored
        )
    if task.n_features != width:
        detail = (
            f"task '{task.name}' has {task.n_features} features, the model {width}; send the "
            "columns that it was trained on"
        )
        raise InvalidData(detail, task=task.name)
    return list(range(width))
