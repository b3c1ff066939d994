"""Add which equal rows of a job are held out together."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_ties"
down_revision = "2026_11_26_new_tasks"


def upgrade() -> None:
    column = sa.Column("ties", sa.String(16), nullable=False, server_default="auto")
    op.add_column("jobs", column)
