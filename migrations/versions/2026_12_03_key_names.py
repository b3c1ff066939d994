"""Add names of API keys."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_03_key_names"
down_revision = "2026_12_02_sessions"


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("name", sa.String(200), nullable=True))


def downgrade() -> None:
    op.drop_column("api_keys", "name")
