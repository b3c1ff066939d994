"""HTTP routes of renewals: the rule, promotion by hand, and putting the old version back."""

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response

from service.access.keys import allows
from service.errors.problems import Problem
from service.http.documentation import JSON_BODY, problems
from service.http.preconditions import check_if_match, etag
from service.http.responses import json_response
from service.http.routing import Confirm, Owner, Record, secured
from service.models import alias_store
from service.models.alias_routes import AliasName
from service.models.routes import Name
from service.monitoring.routes import existing_monitor
from service.renewal import store
from service.renewal.context import Context, RenewalServices
from service.renewal.cron import Cron
from service.renewal.decision import ByHand, promote_by_hand, put_back
from service.renewal.schemas import Decision, Renewal, RenewalSpec
from service.renewal.store import Renewing
from service.renewal.training import check_version
from service.renewal.trial import state_of_trial
from service.storage.database import now
from service.storage.tables import new_id

PATH: Final = "/{alias}/renewal"
router = APIRouter(
    prefix="/v1/models/{name}/aliases", tags=["renewals"], route_class=secured("models:{}")
)
_DECISION_PROBLEMS: Final = (*JSON_BODY, "not-found", "wrong-state")


@router.get(
    PATH,
    summary="Read a renewal",
    response_model=Renewal,
    responses=problems("not-found", "invalid-request"),
)
def get_renewal(name: Name, alias: AliasName, services: Context, owner: Owner) -> Response:
    """Return the rule of a renewal, how far it is, and what is known of its challenger."""
    name, monitor = existing_monitor(services.monitoring, owner, name, alias)
    return _answer(services, name, alias, monitor.id)


@router.put(
    PATH,
    summary="Create or change a renewal",
    response_model=Renewal,
    responses={
        200: {"description": "The renewal existed and has a new rule."},
        201: {"model": Renewal, "description": "The renewal was created."},
        **problems(*JSON_BODY, "not-found", "wrong-state", "precondition-failed"),
    },
)
def put_renewal(
    name: Name,
    alias: AliasName,
    spec: RenewalSpec,
    request: Request,
    *,
    services: Context,
    owner: Owner,
    confirm: Confirm,
    record: Record,
) -> Response:
    """Have the model of an alias trained again by a rule, and replaced by a better one.

    The alias needs a monitor, whose labelled rows are added to the dataset of the model. A change
    of the rule does not stop a training or a trial.
    """
    name, monitor = existing_monitor(services.monitoring, owner, name, alias)
    with services.database.write() as session:
        caller = confirm(session)
        if caller is not None and not allows(caller.scopes, "jobs:write"):
            detail = "a renewal trains models: the key needs the scope 'jobs:write', too"
            raise Problem("forbidden", detail)
        alias_store.lock_model(session, owner, name)
        found = store.find(session, monitor.id, is_locked=True)
        status = 201 if found is None else 200
        if found is None:
            champion = store.version_of(session, monitor, None)
            assert champion is not None  # an alias has a version
            dataset_id = check_version(session, champion, monitor.never_keep)
            if store.is_ending(session, monitor.id):
                detail = "the last renewal is still being cleared away; try again in a moment"
                raise Problem("wrong-state", detail)
            row = store.new_row(monitor.id, dataset_id, champion.created_at)
            session.add(row)
        else:
            row = found.row
            check_if_match(request, etag(row.change_id))
            store.touch(row)
        row.rule, row.change_id = spec.model_dump(mode="json"), new_id("chg")
        row.due_at = None if spec.cron is None else Cron.parse(spec.cron).after(now())
        session.flush()
        record(session, status)
    return _answer(services, name, alias, monitor.id, status=status)


@router.delete(
    PATH,
    summary="Delete a renewal",
    status_code=204,
    responses=problems("not-found", "precondition-failed", "invalid-request"),
)
def delete_renewal(
    name: Name,
    alias: AliasName,
    request: Request,
    *,
    services: Context,
    owner: Owner,
    confirm: Confirm,
    record: Record,
) -> Response:
    """End a renewal, with its training or trial; versions and the alias stay as they are."""
    name, monitor = existing_monitor(services.monitoring, owner, name, alias)
    with services.database.write() as session:
        confirm(session)
        found = _found(store.find(session, monitor.id, is_locked=True), name, alias)
        check_if_match(request, etag(found.row.change_id))
        found.row.state, found.row.next_state = "clearing", None
        store.touch(found.row)
        record(session, 204)
    return Response(status_code=204)


def _deciding(
    name: Name,
    alias: AliasName,
    decision: Decision,
    *,
    services: Context,
    owner: Owner,
    confirm: Confirm,
    record: Record,
) -> Callable[[ByHand], Response]:
    """Return a function that takes a step by hand, and returns the renewal after it."""

    def decide(step: ByHand) -> Response:
        model, monitor = existing_monitor(services.monitoring, owner, name, alias)
        with services.database.write() as session:
            confirm(session)
            alias_store.lock_model(session, owner, model)
            found = _found(store.find(session, monitor.id, is_locked=True), model, alias)
            store.touch(found.row)
            step(session, found, decision.reason)
            record(session, 200)
        services.monitoring.inference.resolver.wait_for_replicas()
        return _answer(services, model, alias, monitor.id)

    return decide


Decide = Annotated[Callable[[ByHand], Response], Depends(_deciding)]


@router.post(
    f"{PATH}:promote",
    summary="Promote a challenger",
    response_model=Renewal,
    responses=problems(*_DECISION_PROBLEMS),
)
def promote_challenger(decide: Decide) -> Response:
    """Move the alias to the challenger by hand, whatever the test says."""
    return decide(promote_by_hand)


@router.post(
    f"{PATH}:put-back",
    summary="Put the old version back",
    response_model=Renewal,
    responses=problems(*_DECISION_PROBLEMS),
)
def put_version_back(decide: Decide) -> Response:
    """Move the alias to the version that it had before the last promotion."""
    return decide(put_back)


def _found(found: Renewing | None, name: str, alias: str) -> Renewing:
    if found is None:
        detail = f"the alias '{alias}' of '{name}' has no renewal; PUT creates it"
        raise Problem("not-found", detail)
    return found


def _answer(
    services: RenewalServices, name: str, alias: str, monitor_id: str, *, status: int = 200
) -> Response:
    with services.database.read() as session:
        found = _found(store.find(session, monitor_id), name, alias)
        n_new = store.count_new_targets(session, found)
    row = found.row
    shown = Renewal(
        model=name,
        alias=alias,
        rule=RenewalSpec.model_validate(row.rule),
        state=row.state,
        reason=store.reason_of(row),
        n_new_targets=n_new,
        due_at=row.due_at,
        alarm_since=found.monitor.alarm_since,
        job_id=row.job_id,
        trial=state_of_trial(row) if row.state == "trial" else None,
        previous_version=row.previous_version,
        updated_at=row.updated_at,
    )
    return json_response(shown, status=status, ETag=etag(row.change_id))
