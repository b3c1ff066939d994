"""Turns a job specification into a queued job, or into a sentence that says why not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from pydantic import ValidationError
from sqlalchemy.orm import Session

from algorithms.evaluation.choices import freed
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import TaskSummary
from algorithms.registry import ALGORITHMS
from service.columns import match_columns, pack_orders
from service.datasets.canonical import summaries, warnings_of
from service.errors import Problem, json_pointer
from service.idempotency import find_created, remember_created
from service.jobs.queue import child_store, store
from service.jobs.schemas import JobLimits, JobSpec, WarmStart
from service.jobs.studies.child_jobs import Plan
from service.jobs.studies.plans import Asked, Study, adaptation, lay_out
from service.models.columns import column_names
from service.models.store import NamedVersion, get_version
from service.rows import DatasetRow, JobRow
from service.settings import Settings

#: When to try again where the queue is full.
_RETRY_S: Final = 30


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asks for a job, and by which request."""

    owner: str
    #: The Idempotency-Key, and the fingerprint of the request that carries it.
    key: str | None
    request: str
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class Checked:
    """A specification that fits.

    Attributes
    ----------
    params
        Complete with defaults.
    study
        What else is to be done than one fit.
    """

    params: dict[str, Any]
    study: Study | None
    warnings: list[str]


def submit(session: Session, spec: JobSpec, origin: Origin, *, settings: Settings) -> JobRow:
    """Return the job made from a specification, or the one that the same request made before.

    Raises
    ------
    Problem, AlgorithmError
        The specification does not fit; nothing is stored.
    """
    existing = find_created(session, origin.owner, origin.key, origin.request)
    if existing is not None:
        return session.get_one(JobRow, existing)
    checked = check(session, spec, owner=origin.owner, settings=settings)
    study = checked.study
    check_room(session, origin.owner, settings)
    job = store.NewJob(
        owner=origin.owner,
        dataset_id=spec.dataset_id,
        algorithm=spec.algorithm,
        params=checked.params,
        seed=spec.seed,
        model_name=spec.model,
        traceparent=origin.traceparent,
        warnings=checked.warnings,
        **limits_of(spec, settings),
    )
    if study is None:
        row = store.create(session, job)
    elif not study.parts:
        row = store.create(session, replace(job, plan=study.plan))
    else:
        row = child_store.create_with_parts(session, replace(job, plan=study.plan), study.parts)
    remember_created(session, origin.owner, origin.key, origin.request, row.id)
    return row


def check_room(session: Session, owner: str, settings: Settings) -> None:
    """Refuse one more job of an owner who has as many waiting as may be."""
    waiting = store.count_waiting(session, owner)
    if waiting >= settings.max_queued:
        detail = f"{waiting} of your jobs are waiting, and {settings.max_queued} may; try later"
        raise Problem("queue-full", detail, headers={"Retry-After": str(_RETRY_S)})


def limits_of(spec: JobLimits, settings: Settings) -> dict[str, Any]:
    """Return what a job may take, by the names of its columns."""
    return {
        "priority": spec.priority,
        "timeout_s": spec.timeout_s or settings.default_timeout_s,
        "memory_mb": spec.memory_mb or settings.default_memory_mb,
        "max_attempts": spec.max_attempts or settings.max_attempts,
        "threads": spec.threads,
    }


def check_limits(spec: JobLimits, settings: Settings) -> None:
    """Refuse more time than a job may take."""
    if spec.timeout_s is not None and spec.timeout_s > settings.max_timeout_s:
        detail = f"timeout_s is {spec.timeout_s:g}, more than {settings.max_timeout_s:g}, the most"
        raise Problem("invalid-request", detail, errors=[place("/timeout_s", detail)])


def check(session: Session, spec: JobSpec, *, owner: str, settings: Settings) -> Checked:
    """Return the job that a specification stands for, where everything fits."""
    algorithm = ALGORITHMS.get(spec.algorithm)
    if algorithm is None:
        known = ", ".join(sorted(ALGORITHMS))
        detail = f"there is no algorithm '{spec.algorithm}'; there are {known}"
        raise Problem("unknown-algorithm", detail, errors=[place("/algorithm", detail)])
    check_limits(spec, settings)
    if spec.warm_start is not None:
        found = _find_base(session, spec, spec.warm_start, algorithm, owner=owner)
        tasks, warnings = _find_tasks(session, spec, algorithm, owner=owner)
        plan = _plan_adaptation(session, found, tasks, algorithm)
        return Checked(found.row.params, Study(plan, ()), warnings)
    # what a comparison judges is what is trained
    values = spec.params if spec.compare is None else freed(algorithm, spec.params)
    params = _parse_params(algorithm, values)
    asked = Asked(search=spec.search, compare=spec.compare, evaluate=spec.evaluate)
    if asked != Asked():
        algorithm.check_held_out(params)
    tasks, warnings = _find_tasks(session, spec, algorithm, owner=owner)
    _check_tasks(algorithm, tasks, params)
    complete = params.model_dump(mode="json")
    if asked == Asked():
        return Checked(complete, None, warnings)
    study = lay_out(algorithm, spec.params, tasks, asked, seed=spec.seed)
    return Checked(complete, study, warnings)


def find_dataset(
    session: Session, dataset_id: str, *, owner: str
) -> tuple[DatasetRow, dict[str, Any]]:
    """Return a dataset that is ready, and its manifest."""
    dataset = session.get(DatasetRow, dataset_id)
    if dataset is None or dataset.owner != owner:
        detail = f"there is no dataset '{dataset_id}'"
        raise Problem("not-found", detail, errors=[place("/dataset_id", detail)])
    if dataset.state != "ready" or dataset.manifest is None:
        raise Problem("wrong-state", f"dataset '{dataset.id}' is {dataset.state}, not ready")
    return dataset, dataset.manifest


def _find_tasks(
    session: Session, spec: JobSpec, algorithm: Algorithm[Any, Any], *, owner: str
) -> tuple[tuple[TaskSummary, ...], list[str]]:
    """Return the shapes of the tasks, and what the user should know before they are learned."""
    manifest = find_dataset(session, spec.dataset_id, owner=owner)[1]
    # of the targets, which matter where an algorithm learns numbers
    warnings = warnings_of(manifest) if algorithm.needs.target in ("numbers", "any") else []
    return summaries(manifest), warnings


def _find_base(
    session: Session, spec: JobSpec, start: WarmStart, algorithm: Algorithm[Any, Any], *, owner: str
) -> NamedVersion:
    """Return the stored model that takes new tasks, where the specification fits it."""
    found = get_version(session, owner, start.model, start.version)
    if found is None:
        version = "" if start.version is None else f" with version {start.version}"
        detail = f"there is no model '{start.model}'{version}"
        is_there = get_version(session, owner, start.model, None) is not None
        pointer = "/warm_start/version" if is_there else "/warm_start/model"
        raise Problem("not-found", detail, errors=[place(pointer, detail)])
    for given, field in (
        (spec.params, "params"),
        (spec.search, "search"),
        (spec.compare, "compare"),
        (spec.evaluate, "evaluate"),
    ):
        if given:
            detail = f"'{field}' cannot be given with 'warm_start': what the model learned holds"
            raise Problem("invalid-request", detail, errors=[place(f"/{field}", detail)])
    if found.row.algorithm != algorithm.name:
        detail = f"'{start.model}' is a model of {found.row.algorithm}, not of {algorithm.name}"
        raise Problem("invalid-request", detail, errors=[place("/algorithm", detail)])
    if not algorithm.takes_new_tasks():
        detail = f"{algorithm.name} cannot take new tasks without a new fit"
        raise Problem("invalid-request", detail, errors=[place("/warm_start", detail)])
    return found


def _plan_adaptation(
    session: Session,
    found: NamedVersion,
    tasks: Sequence[TaskSummary],
    algorithm: Algorithm[Any, Any],
) -> Plan:
    """Return the plan to take tasks into a stored model, where they fit it."""
    of_model = session.get_one(DatasetRow, found.row.dataset_id).manifest
    assert of_model is not None  # a model was made from it
    width = summaries(of_model)[0].n_features
    known = next(iter(column_names(session, found.row.id).values()))
    orders = {}
    for task in tasks:
        if task.name in found.row.tasks:
            raise InvalidData(f"the model has a task '{task.name}' already", task=task.name)
        if algorithm.needs.same_features:
            orders[task.name] = _order_of(task, known, width)
    columns = pack_orders(orders)
    return adaptation(found.row.id, model=found.name, version=found.row.version, columns=columns)


def _order_of(task: TaskSummary, known: tuple[str, ...] | None, width: int) -> list[int]:
    """Return the order of the columns of a new task in which a model has them, by name if it can.

    Parameters
    ----------
    known
        Names of the columns that the model was trained on.
    """
    if known is not None and task.feature_names is not None:
        subject = f"task '{task.name}' needs the columns that the model was trained on"
        return match_columns(task.feature_names, known, subject=subject, task=task.name)
    if task.n_features != width:
        detail = f"task '{task.name}' has {task.n_features} features, those of the model {width}"
        raise InvalidData(detail, task=task.name)
    return list(range(width))


def _check_tasks(algorithm: Algorithm[Any, Any], tasks: Sequence[TaskSummary], params: Any) -> None:
    """Raise InvalidData where the tasks do not fit, with what an upload can say to mend it."""
    try:
        algorithm.check(tasks, params)
    except InvalidData as error:
        targets = {task.name: task.target for task in tasks}
        if algorithm.needs.target == "classes" and targets.get(error.task or "") == "numbers":
            advice = "if they are codes of classes, upload them with target_kind=classes"
            raise InvalidData(f"{error.message}; {advice}", task=error.task) from None
        raise


def _parse_params(algorithm: Algorithm[Any, Any], values: dict[str, Any]) -> Any:
    try:
        # read as JSON, where a list may stand for a tuple and 1 for 1.0, but nothing else
        return algorithm.Params.model_validate_json(orjson.dumps(values))
    except ValidationError as error:
        entries = [
            {
                "pointer": json_pointer(("params", *e["loc"])),
                "code": e["type"],
                "detail": e["msg"],
            }
            for e in error.errors(include_input=False, include_url=False)
        ]
        first = entries[0]
        detail = f"{algorithm.name}: {first['pointer']}: {first['detail']}"
        raise Problem("invalid-params", detail, errors=entries) from None


def place(pointer: str, detail: str) -> dict[str, str]:
    """Return an entry of ``errors`` about a place in the body."""
    return {"pointer": pointer, "code": "invalid", "detail": detail}
