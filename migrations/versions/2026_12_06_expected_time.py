"""Add the expected time of jobs."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_06_expected_time"
down_revision = "2026_12_05_class_weight"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("expected_s", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("reference_s", sa.Double(), nullable=True))
    condition = sa.text("reference_s IS NOT NULL")
    op.create_index(
        "ix_jobs_reference",
        "jobs",
        ["state", "id"],
        sqlite_where=condition,
        postgresql_where=condition,
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_reference", table_name="jobs")
    op.drop_column("jobs", "reference_s")
    op.drop_column("jobs", "expected_s")
