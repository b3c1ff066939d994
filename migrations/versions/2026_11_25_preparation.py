"""Add the preparation of raw tables to jobs and model versions."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_25_preparation"
down_revision = "2026_11_24_job_base_version"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("preparation", sa.JSON(), nullable=True))
    op.add_column("model_versions", sa.Column("preparation", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("model_versions", "preparation")
    op.drop_column("jobs", "preparation")
