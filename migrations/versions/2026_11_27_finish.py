"""Add whether a race of methods should end early."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_finish"
down_revision = "2026_11_27_webhooks"


def upgrade() -> None:
    column = sa.Column(
        "is_finish_requested", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    op.add_column("jobs", column)
