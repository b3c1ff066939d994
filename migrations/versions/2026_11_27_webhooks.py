"""Add webhooks and the deliveries of their events."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_webhooks"
down_revision = "2026_11_27_monitors"


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=True),
        sa.Column("url", sa.String(2000), nullable=False),
        sa.Column("types", sa.JSON(), nullable=True),
        sa.Column("secret", sa.String(100), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
    )
    op.create_index("ix_webhooks_list", "webhooks", ["owner", "id"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("webhook_id", sa.String(40), nullable=False),
        sa.Column("event_id", sa.String(40), nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("source", sa.String(300), nullable=False),
        sa.Column("subject", sa.String(500), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("n_attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(500), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name="fk_webhook_deliveries_webhook_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_deliveries"),
    )
    op.create_index("ix_webhook_deliveries_list", "webhook_deliveries", ["webhook_id", "id"])
    op.create_index("ix_webhook_deliveries_created_at", "webhook_deliveries", ["created_at"])
    is_pending = sa.text("due_at IS NOT NULL")
    for name, columns in (("due", ["due_at"]), ("pending", ["source", "id"])):
        op.create_index(
            f"ix_webhook_deliveries_{name}",
            "webhook_deliveries",
            ["webhook_id", *columns],
            sqlite_where=is_pending,
            postgresql_where=is_pending,
        )
