"""Add what calls of models do about tasks that they were not trained on."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_26_new_tasks"
down_revision = "2026_11_26_task_columns"
_TABLES = ("jobs", "model_versions")


def upgrade() -> None:
    for table in _TABLES:
        column = sa.Column("new_tasks", sa.String(16), nullable=False, server_default="refuse")
        op.add_column(table, column)
