"""Add the index of the time at which jobs ended."""

from alembic import op

revision = "2026_11_24_job_ends"
down_revision = "2026_11_24_audit_events"


def upgrade() -> None:
    op.create_index("ix_jobs_finished_at", "jobs", ["finished_at"])


def downgrade() -> None:
    op.drop_index("ix_jobs_finished_at", "jobs")
