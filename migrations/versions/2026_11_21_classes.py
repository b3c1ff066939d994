"""Add the class labels of each task of a model."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_21_classes"
down_revision = "2026_11_21_attempts_and_parts"


def upgrade() -> None:
    # versions of before say nothing of their classes
    with op.batch_alter_table("model_versions") as batch_op:
        batch_op.add_column(sa.Column("classes", sa.JSON(), server_default="{}", nullable=False))

    with op.batch_alter_table("model_versions") as batch_op:
        batch_op.alter_column("classes", server_default=None)


def downgrade() -> None:
    with op.batch_alter_table("model_versions") as batch_op:
        batch_op.drop_column("classes")
