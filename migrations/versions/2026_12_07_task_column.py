"""Add the task column of model versions."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_07_task_column"
down_revision = "2026_12_07_key_creators"


def upgrade() -> None:
    column = sa.Column("task_column", sa.String(200), nullable=False, server_default="task")
    op.add_column("model_versions", column)


def downgrade() -> None:
    op.drop_column("model_versions", "task_column")
