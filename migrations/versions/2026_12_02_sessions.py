"""Add sessions of browsers."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_02_sessions"
down_revision = "2026_12_01_calibration"


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("token_sha256", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(40), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_sha256", name="pk_sessions"),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name="fk_sessions_key_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_sessions_key_id", "sessions", ["key_id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])


def downgrade() -> None:
    op.drop_table("sessions")
