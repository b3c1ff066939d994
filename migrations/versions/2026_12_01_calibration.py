"""Add the calibration of models to jobs."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_calibration"
down_revision = "2026_11_30_parsed_bytes"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("calibration", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "calibration")
