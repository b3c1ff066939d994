"""Keep the specification of training jobs, so that they can be repeated."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_26_job_spec"
down_revision = "2026_11_25_preparation"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("spec", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "spec")
