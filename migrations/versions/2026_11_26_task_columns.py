"""Add the keys that created API keys, and the task columns of model versions."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_26_task_columns"
down_revision = "2026_12_06_expected_time"


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("creator_id", sa.String(40), nullable=True))
    op.create_index("ix_api_keys_creator_id", "api_keys", ["creator_id"])
    task_column = sa.Column("task_column", sa.String(200), nullable=False, server_default="task")
    op.add_column("model_versions", task_column)
