"""Add the events of the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_24_audit_events"
down_revision = "2026_11_23_retention"


def upgrade() -> None:
    op.create_table(
        "audit_events",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("operation", sa.String(length=64), nullable=False),
        sa.Column("object", sa.String(length=500), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("code", sa.String(length=64), nullable=True),
        sa.Column("owner", sa.String(length=200), nullable=True),
        sa.Column("key_id", sa.String(length=40), nullable=True),
        sa.Column("source", sa.String(length=200), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_events")),
    )
    op.create_index("ix_audit_events_owner", "audit_events", ["owner", "id"])
    op.create_index("ix_audit_events_key", "audit_events", ["key_id", "id"])
    op.create_index("ix_audit_events_object", "audit_events", ["object", "id"])
    op.create_index("ix_audit_events_created_at", "audit_events", ["created_at"])


def downgrade() -> None:
    op.drop_table("audit_events")
