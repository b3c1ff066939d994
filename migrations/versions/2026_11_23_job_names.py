"""Rename error codes of jobs, keys of their plans, and the counter of attempts.

Codes become kebab-case. The signal of a crash was part of its code; it stays in the detail, so a
downgrade cannot restore it.
"""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "2026_11_23_job_names"
down_revision = "2026_11_23_validation_issues"

CODES = {
    "out_of_memory": "out-of-memory",
    "timed_out": "timed-out",
    "base_model_gone": "base-model-deleted",
    "worker_lost": "worker-lost",
    "worker_failed": "worker-failed",
    "not_stored": "result-not-stored",
    "not_begun": "never-started",
    "not_ready": "worker-start-failed",
    "released": "requeued",
    "stopped": "worker-exited",
    "defect": "internal-error",
}
PLAN_KEYS = {
    "asked": "options",
    "least": "min_rows",
    "tried": "param_sets",
    "n_parts": "n_child_jobs",
}

JOBS = sa.table(
    "jobs",
    sa.column("id", sa.String),
    sa.column("error", sa.JSON),
    sa.column("plan", sa.JSON),
    sa.column("result", sa.JSON),
)
ATTEMPTS = sa.table(
    "attempts",
    sa.column("job_id", sa.String),
    sa.column("attempt", sa.Integer),
    sa.column("error", sa.JSON),
)
EVENTS = sa.table(
    "events", sa.column("id", sa.BigInteger), sa.column("kind"), sa.column("data", sa.JSON)
)

Json = dict[str, Any]


def upgrade() -> None:
    op.execute("ALTER TABLE jobs RENAME COLUMN charged TO counted_attempts")
    _rewrite(CODES, PLAN_KEYS)


def downgrade() -> None:
    _rewrite(_inverse(CODES), _inverse(PLAN_KEYS))
    op.execute("ALTER TABLE jobs RENAME COLUMN counted_attempts TO charged")


def _rewrite(codes: dict[str, str], keys: dict[str, str]) -> None:
    def error(value: Json) -> Json:
        code = value["code"]
        return {**value, "code": "crashed" if code.startswith("crashed") else codes.get(code, code)}

    def event(value: Json) -> Json:
        return {**value, "error": error(value["error"])} if value.get("error") else value

    def plan(value: Json) -> Json:
        if value.get("kind") not in {"study", "score"}:
            return value
        value = _renamed(value, keys)
        if value["kind"] == "study":
            for part in ("search", "comparison", "evaluation"):
                if part in value:
                    value[part] = _renamed(value[part], keys)
        return value

    def result(value: Json) -> Json:
        return {**value, "plan": plan(value["plan"])} if "scores" in value else value

    _rewrite_column(JOBS.c.error, [JOBS.c.id], error)
    _rewrite_column(JOBS.c.plan, [JOBS.c.id], plan)
    _rewrite_column(JOBS.c.result, [JOBS.c.id], result)
    _rewrite_column(ATTEMPTS.c.error, [ATTEMPTS.c.job_id, ATTEMPTS.c.attempt], error)
    _rewrite_column(EVENTS.c.data, [EVENTS.c.id], event, kind="state")


def _rewrite_column(
    column: Any,
    key: list[Any],
    change: Callable[[Json], Json],
    *,
    kind: str | None = None,
) -> None:
    """Replace every value of a JSON column that changes, one row at a time."""
    connection = op.get_bind()
    query = sa.select(*key).where(column.is_not(None))
    if kind is not None:
        query = query.where(column.table.c.kind == kind)
    found = connection.execute(query).all()
    for values in found:
        row = sa.and_(*(part == value for part, value in zip(key, values, strict=True)))
        before = connection.scalar(sa.select(column).where(row))
        after = None if before is None else change(before)
        if after != before:
            connection.execute(sa.update(column.table).where(row).values({column.name: after}))


def _renamed(value: Json, keys: dict[str, str]) -> Json:
    return {keys.get(name, name): item for name, item in value.items()}


def _inverse(names: dict[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}
