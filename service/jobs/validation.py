"""Validation of specifications of training jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from pydantic import ValidationError
from sqlalchemy.orm import Session

from algorithms.evaluation.choice.automatic import REMOVED, AutomaticOptions
from algorithms.evaluation.selection.choices import with_inner_selection
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import explain_unknown
from algorithms.interface.needs import Needs
from algorithms.interface.params import Params, StrictModel
from algorithms.interface.tasks import TaskSummary, tasks_have
from algorithms.interface.ties import DEFAULT_TIES
from algorithms.interface.weights import ClassWeight, has_class_weight, no_classes
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from algorithms.wrappers.calibration.algorithm import calibrated, check_calibration
from algorithms.wrappers.new_tasks import check_new_tasks
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.weights import own_class_weight
from service.datasets.manifest import columns_of_manifest, count_unlabelled, summaries, warnings_of
from service.datasets.number_writings import NumberWritings
from service.datasets.suitability import check_tasks
from service.datasets.view import DatasetView
from service.errors.problems import Problem
from service.errors.validation import describe, entry_at, json_pointer, without_branches
from service.jobs.adaptation import find_adapted, plan_to_adapt
from service.jobs.duration import TimeEstimate, estimate_time
from service.jobs.limits import check_limits, limits_of
from service.jobs.memory import check_memory
from service.jobs.spec_schemas import JobSpec
from service.jobs.studies.child_jobs import AUTOMATIC
from service.jobs.studies.plans import Study, StudyOptions, errors_in, plan_choice, plan_job
from service.settings import Settings

#: Needs of a job that chooses its algorithm.
_TARGETS: Final = Needs(same_features=False, target="any", sparse=True)


@dataclass(frozen=True, slots=True)
class ValidatedJob:
    """A valid job specification.

    Attributes
    ----------
    params
        Parameters, complete with defaults.
    class_weight
        Weights of classes, unless they are a parameter of the algorithm.
    study
        Plan and child jobs of a job that is more than one fit.
    """

    params: dict[str, Any]
    class_weight: ClassWeight | None
    study: Study | None
    warnings: list[str]
    #: Expected peak memory of a fit, and time of the job; None if they are unknown.
    memory_bytes: float | None = None
    time: TimeEstimate | None = None


def check(session: Session, spec: JobSpec, *, owner: str, settings: Settings) -> ValidatedJob:
    """Validate a specification; return its parameters, study and warnings.

    Checks that need no dataset come first; then the dataset is read once.

    Raises
    ------
    Problem, AlgorithmError
        The specification is invalid.
    """
    algorithm = None if spec.algorithm == AUTOMATIC else _find_algorithm(spec.algorithm)
    check_limits(spec, settings)
    if algorithm is None:
        return _check_choice(session, spec, owner=owner)
    algorithm = prepared(algorithm, None, spec.preparation)
    weight_params, class_weight = own_class_weight(algorithm, spec.class_weight)
    if spec.adapt is not None:
        version = find_adapted(session, spec, spec.adapt, algorithm, owner=owner)
        dataset = DatasetView.find(session, spec.dataset_id, owner=owner)
        tasks, warnings = _tasks_of(dataset, spec, algorithm.needs)
        written = NumberWritings.of_manifest(dataset.manifest)
        plan = plan_to_adapt(session, version, tasks, algorithm, written)
        return ValidatedJob(version.row.params, None, Study(plan, ()), warnings)
    # a comparison and the final fit use the same parameters
    requested = {**weight_params, **spec.params}
    values = requested if spec.compare is None else with_inner_selection(algorithm, requested)
    params = _parse_params(algorithm.name, algorithm.Params, values)
    options = StudyOptions(search=spec.search, compare=spec.compare, evaluate=spec.evaluate)
    has_study = options != StudyOptions()
    if has_study:
        algorithm.check_held_out(params)
        _refuse_apart(spec)
    dataset = DatasetView.find(session, spec.dataset_id, owner=owner)
    tasks, warnings = _prepared_tasks(dataset, spec, algorithm.needs, class_weight)
    check_tasks(algorithm, tasks, params)
    algorithm.check_selection(tasks, params)
    with errors_in("new_tasks"):
        check_new_tasks(algorithm, params, spec.new_tasks)
    _check_calibration(spec, algorithm, tasks, params)
    study = None
    if has_study:
        splits = [
            section.splits for section in (spec.compare, spec.evaluate) if section is not None
        ]
        tasks = _with_labels(session, dataset, tasks, *splits)
        study = plan_job(
            algorithm,
            requested,
            tasks,
            options,
            seed=spec.seed,
            unit=dataset.target_name,
            new_tasks=spec.new_tasks,
        )
    time = estimate_time(
        session,
        algorithm,
        tasks,
        params,
        calibration=spec.complete_calibration(),
        study=study,
        n_slots=None if settings.scheduler_url else settings.resolved_worker_slots(),
    )
    limits = limits_of(spec, settings)
    memory, notes = check_memory(
        algorithm,
        tasks,
        params,
        memory_mb=limits["memory_mb"],
        settings=settings,
        time=time.describe(),
    )
    notes += time.warnings(algorithm.name, timeout_s=limits["timeout_s"])
    complete = params.model_dump(mode="json")
    return ValidatedJob(complete, class_weight, study, [*warnings, *notes], memory, time)


def _find_algorithm(name: str) -> Algorithm[Any, Any]:
    """Return an algorithm, or raise a Problem that suggests another name."""
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        detail = explain_unknown(name, [AUTOMATIC, *sorted(ALGORITHMS)], what="algorithm")
        raise Problem("unknown-algorithm", detail, errors=[entry_at("/algorithm", detail)])
    return algorithm


def _check_choice(session: Session, spec: JobSpec, *, owner: str) -> ValidatedJob:
    """Validate the specification of a job that chooses its algorithm.

    Raises
    ------
    Problem, AlgorithmError
        The specification is invalid.
    """
    for field in ("search", "compare", "evaluate", "adapt"):
        if getattr(spec, field) is not None:
            detail = (
                f"'{field}' cannot be combined with the algorithm '{AUTOMATIC}', which compares "
                "and evaluates all methods itself; remove it, or name an algorithm"
            )
            raise Problem("invalid-request", detail, errors=[entry_at(f"/{field}", detail)])
    for name in spec.params.keys() & REMOVED.keys():
        detail = f"auto has no '{name}' any more: {REMOVED[name]}"
        raise Problem("invalid-params", detail, errors=[entry_at(f"/params/{name}", detail)])
    options = _parse_params(AUTOMATIC, AutomaticOptions, spec.params)
    dataset = DatasetView.find(session, spec.dataset_id, owner=owner)
    tasks, warnings = _prepared_tasks(dataset, spec, _TARGETS, spec.class_weight)
    if spec.calibration is not None:
        with errors_in("calibration"):
            check_calibration(tasks, spec.calibration)
    tasks = _with_labels(session, dataset, tasks, options.splits)
    study = plan_choice(tasks, options, new_tasks=spec.new_tasks, unit=dataset.target_name)
    complete = options.model_dump(mode="json")
    return ValidatedJob(complete, spec.class_weight, study, warnings)


def _check_calibration(
    spec: JobSpec, algorithm: Algorithm[Any, Any], tasks: Sequence[TaskSummary], params: Params
) -> None:
    """Raise InvalidData if the model of the specification cannot be calibrated."""
    if spec.calibration is None:
        return
    with errors_in("calibration"):
        calibrated(algorithm, spec.complete_calibration()).check(tasks, params)


def _refuse_apart(spec: JobSpec) -> None:
    """Raise a Problem if a job of several fits is to fit tasks with different columns apart."""
    if spec.preparation is None or spec.preparation.different_columns == "refuse":
        return
    detail = (
        "'different_columns' is 'apart' for a job of one fit; for scores, train the algorithm "
        f"'{AUTOMATIC}' with params.algorithms, which fits methods to each set of columns"
    )
    pointer = "/preparation/different_columns"
    raise Problem("invalid-request", detail, errors=[entry_at(pointer, detail)])


def _tasks_of(
    dataset: DatasetView, spec: JobSpec, needs: Needs
) -> tuple[tuple[TaskSummary, ...], list[str]]:
    """Return the summaries of the tasks, and the warnings about the dataset.

    Rows without a target count if the job uses them: one fit by a method that needs no targets.
    """
    manifest = dataset.manifest
    warnings = warnings_of(manifest, uses_numbers=needs.target in {"numbers", "any"})
    has_splits = (
        spec.algorithm == AUTOMATIC
        or spec.search is not None
        or spec.compare is not None
        or spec.evaluate is not None
    )
    n_unlabelled = count_unlabelled(manifest)
    can_use = needs.ignores_targets({entry["target"] for entry in manifest["tasks"]})
    can_use = can_use and spec.adapt is None
    if n_unlabelled:
        rows = "1 row" if n_unlabelled == 1 else f"{n_unlabelled} rows"
        if not can_use:
            warnings.append(f"{rows} without a target: left out of the fit")
        elif has_splits:
            warnings.append(f"{rows} without a target: used in the final fit, but not for scores")
    if needs.target in {"classes", "any"}:
        warnings += _single_class_warnings(manifest)
    tasks = summaries(manifest, with_unlabelled=can_use and not has_splits)
    if spec.ties != DEFAULT_TIES:  # the manifest counts sets of rows under the default
        unknown: Any = {"n_divisible": None, "n_units": None, "n_shared_units": None}
        tasks = tuple(replace(task, **unknown) for task in tasks)
    return tasks, warnings


def _single_class_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """Return a warning if tasks have rows of a single class."""
    tasks = manifest["tasks"]
    single = [entry["name"] for entry in tasks if len(entry.get("classes", ())) == 1]
    if not single:
        return []
    warning = (
        f"{tasks_have(single, len(tasks))} rows of a single class; "
        "methods that learn each task alone always predict it there"
    )
    return [warning]


def _prepared_tasks(
    dataset: DatasetView, spec: JobSpec, needs: Needs, class_weight: ClassWeight | None
) -> tuple[tuple[TaskSummary, ...], list[str]]:
    """Return the tasks as they are fitted, prepared and with weights, and the warnings."""
    tasks, warnings = _tasks_of(dataset, spec, needs)
    _check_preparation(dataset, spec, tasks)
    return _with_weights(tasks, class_weight), warnings


def _check_preparation(dataset: DatasetView, spec: JobSpec, tasks: Sequence[TaskSummary]) -> None:
    """Raise a Problem if rows cannot be prepared as the specification says."""
    if spec.preparation is None:
        return
    matrices = next((task.name for task in tasks if task.input != "rows"), None)
    sparse = next((task.name for task in tasks if task.is_sparse), None)
    if (matrices or sparse) is not None:
        what = "covariance matrices" if matrices is not None else "sparse rows"
        detail = f"task '{matrices or sparse}' has {what}, which cannot be prepared"
        raise Problem("invalid-request", detail, errors=[entry_at("/preparation", detail)])
    columns = columns_of_manifest(dataset.manifest)
    kinds = {column.name: column for column in columns or ()}
    for name, order in spec.preparation.orders.items():
        column = kinds.get(name)
        missing = [level for level in column.levels if level not in order] if column else []
        if column is None or column.kind != "category":
            detail = f"the dataset has no category '{name}'"
        elif missing:
            detail = f"the order of column '{name}' lacks its value '{missing[0]}'"
        else:
            continue
        raise Problem(
            "invalid-request", detail, errors=[entry_at(f"/preparation/orders/{name}", detail)]
        )


def _with_weights(
    tasks: tuple[TaskSummary, ...], class_weight: ClassWeight | None
) -> tuple[TaskSummary, ...]:
    """Return the summaries of tasks whose classes have weights.

    Raises
    ------
    InvalidData
        A task has no classes.
    """
    if not has_class_weight(class_weight):
        return tasks
    for task in tasks:
        if task.target != "classes":
            raise no_classes(task.name)
    return tuple(replace(task, has_weights=True) for task in tasks)


def _with_labels(
    session: Session, dataset: DatasetView, tasks: tuple[TaskSummary, ...], *splits: Splits
) -> tuple[TaskSummary, ...]:
    """Return the summaries, with the labels of all rows if some splits list rows in 'given'."""
    if all(split.given is None for split in splits):
        return tasks
    labels = dataset.read_labels(session)
    return tuple(replace(task, labels=labels.get(task.name)) for task in tasks)


def _parse_params(name: str, params: type[StrictModel], values: dict[str, Any]) -> Any:
    """Return the parameters of an algorithm."""
    try:
        # validated as JSON: lists become tuples and 1 becomes 1.0, nothing else is converted
        return params.model_validate_json(orjson.dumps(values))
    except ValidationError as error:
        entries = [
            {
                "pointer": json_pointer(("params", *e["loc"])),
                "code": e["type"],
                "detail": describe(e, params.model_fields, "parameter"),
            }
            for e in without_branches(error.errors(include_input=False, include_url=False), values)
        ]
        first = entries[0]
        detail = f"{name}: {first['pointer']}: {first['detail']}"
        raise Problem("invalid-params", detail, errors=entries) from None
