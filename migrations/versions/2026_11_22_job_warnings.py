"""Add the warnings of jobs."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_22_job_warnings"
down_revision = "2026_11_21_batch_inference"


def upgrade() -> None:
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.add_column(sa.Column("warnings", sa.JSON(), server_default="[]", nullable=False))

    with op.batch_alter_table("jobs") as batch_op:
        batch_op.alter_column("warnings", server_default=None)


def downgrade() -> None:
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.drop_column("warnings")
