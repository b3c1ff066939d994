"""Rename the column of validation issues and the codes in it."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_23_validation_issues"
down_revision = "2026_11_22_job_warnings"

_NEW_CODES = {
    "bad-member": "unexpected-array",
    "bad-name": "invalid-name",
    "bad-quoting": "invalid-quoting",
    "damaged-archive": "corrupt-archive",
    "damaged-array": "corrupt-array",
    "expands-too-far": "decompression-limit",
    "needs-more-memory": "ingest-out-of-memory",
    "not-a-label": "invalid-label",
    "option-missing": "missing-option",
    "option-unused": "unused-option",
    "reader-died": "parser-crashed",
    "takes-too-long": "ingest-timeout",
}


def upgrade() -> None:
    op.execute("ALTER TABLE datasets RENAME COLUMN complaints TO issues")
    _rename_codes(_NEW_CODES)


def downgrade() -> None:
    _rename_codes({new: old for old, new in _NEW_CODES.items()})
    op.execute("ALTER TABLE datasets RENAME COLUMN issues TO complaints")


def _rename_codes(renamed: dict[str, str]) -> None:
    datasets = sa.table(
        "datasets", sa.column("id"), sa.column("state"), sa.column("issues", sa.JSON())
    )
    connection = op.get_bind()
    rejected = sa.select(datasets.c.id, datasets.c.issues).where(datasets.c.state == "rejected")
    for dataset_id, issues in connection.execute(rejected).all():
        new = [{**issue, "code": renamed.get(issue["code"], issue["code"])} for issue in issues]
        update = datasets.update().where(datasets.c.id == dataset_id).values(issues=new)
        connection.execute(update)
