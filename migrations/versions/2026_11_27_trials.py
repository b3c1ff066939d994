"""Add to monitors the numbers of challengers that were tried against each version."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_trials"
down_revision = "2026_11_27_renewals"


def upgrade() -> None:
    op.add_column("monitors", sa.Column("trials", sa.JSON(), nullable=False, server_default="{}"))
