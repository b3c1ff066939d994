"""Add to renewals when a step is tried again that an unexpected error has stopped."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_retries"
down_revision = "2026_11_27_trials"


def upgrade() -> None:
    op.add_column("renewals", sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True))
