"""Results of jobs for the API; verdicts of earlier versions follow the present rule."""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from algorithms.evaluation.comparison.no_verdict import (
    FEW_SCORES,
    NO_VERDICT,
    describe_no_verdict,
    why_no_verdict,
)
from service.models.choice_schemas import Choice
from service.storage.tables import DatasetRow, JobRow, VersionRow

#: Phrase of earlier versions for a comparison without a test.
_UNTESTED: Final = "there are too few splits, or no method learns each task alone"


def shown_results(session: Session, rows: Sequence[JobRow]) -> dict[str, dict[str, Any] | None]:
    """Return the results of jobs, by job."""
    shown = {row.id: _choice(row.result) for row in rows}
    # verdicts of comparisons by versions that knew no reasons
    former = {
        i: result
        for i, result in shown.items()
        if result and set(result) == {"verdict", "sentence"}
    }
    n_tasks = _numbers_of_tasks(session, list(former)) if former else {}
    return shown | {i: _by_rule(result, n_tasks.get(i)) for i, result in former.items()}


def _by_rule(result: dict[str, Any], n_tasks: int | None) -> dict[str, Any]:
    reason = why_no_verdict(n_tasks=n_tasks)
    if reason is None and _UNTESTED in result["sentence"]:
        reason = FEW_SCORES
    if reason is None:
        return {**result, "reason": None}
    sentence = describe_no_verdict(reason)
    return {"verdict": NO_VERDICT, "reason": reason, "sentence": sentence}


def _choice(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the result unchanged, unless it is an automatic choice by an earlier version."""
    if result is None or "leaderboard" not in result:
        return result
    if "reason" in (result["together_or_apart"] or {}):
        return result
    return Choice.model_validate(result).model_dump()


def _numbers_of_tasks(session: Session, job_ids: Sequence[str]) -> dict[str, int]:
    """Return the number of tasks of each job: of its model, or of its dataset."""
    lengths = (
        sa.func.json_array_length(tasks)
        for tasks in (VersionRow.tasks, DatasetRow.manifest["tasks"])
    )
    query = (
        sa.select(JobRow.id, sa.func.coalesce(*lengths))
        .join(DatasetRow, DatasetRow.id == JobRow.dataset_id)
        .outerjoin(VersionRow, VersionRow.job_id == JobRow.id)
        .where(JobRow.id.in_(job_ids))
    )
    return dict(session.execute(query).all())
