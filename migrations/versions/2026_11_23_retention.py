"""Add an index for the deletion of old idempotency keys."""

from alembic import op

revision = "2026_11_23_retention"
down_revision = "2026_11_23_job_retry_at"


def upgrade() -> None:
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def downgrade() -> None:
    op.drop_index("ix_idempotency_keys_created_at", table_name="idempotency_keys")
