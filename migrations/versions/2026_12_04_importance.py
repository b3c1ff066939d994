"""Add the importance of columns to versions of models."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_04_importance"
down_revision = "2026_12_03_key_names"


def upgrade() -> None:
    op.add_column("model_versions", sa.Column("importance", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("model_versions", "importance")
