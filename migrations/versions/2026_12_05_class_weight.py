"""Add the weights of classes to jobs."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_05_class_weight"
down_revision = "2026_12_04_importance"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("class_weight", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "class_weight")
