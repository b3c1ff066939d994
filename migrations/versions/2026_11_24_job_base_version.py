"""Add a column for the model version that a job adapts or applies.

It was in the plan only, so that finding the jobs of a version read every unfinished one.
"""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_24_job_base_version"
down_revision = "2026_11_24_quotas"

_IS_SET = sa.text("base_version_id IS NOT NULL")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("base_version_id", sa.String(40), nullable=True))
    jobs = sa.table("jobs", sa.column("plan", sa.JSON), sa.column("base_version_id", sa.String))
    in_plan = jobs.c.plan["version_id"].as_string()
    op.execute(sa.update(jobs).values(base_version_id=in_plan).where(in_plan.is_not(None)))
    op.create_index(
        "ix_jobs_base_version",
        "jobs",
        ["owner", "state", "base_version_id"],
        sqlite_where=_IS_SET,
        postgresql_where=_IS_SET,
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_base_version", table_name="jobs")
    op.drop_column("jobs", "base_version_id")
