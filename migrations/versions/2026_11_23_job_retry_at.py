"""Add the time before which a queued job is not submitted."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_23_job_retry_at"
down_revision = "2026_11_23_job_indexes"


def upgrade() -> None:
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.add_column(sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.create_index("ix_jobs_retry_at", ["retry_at"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.drop_index("ix_jobs_retry_at")
        batch_op.drop_column("retry_at")
