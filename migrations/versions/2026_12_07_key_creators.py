"""Add the keys that created API keys."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_07_key_creators"
down_revision = "2026_12_06_expected_time"


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("creator_id", sa.String(40), nullable=True))
    op.create_index("ix_api_keys_creator_id", "api_keys", ["creator_id"])


def downgrade() -> None:
    op.drop_index("ix_api_keys_creator_id", table_name="api_keys")
    op.drop_column("api_keys", "creator_id")
