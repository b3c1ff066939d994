"""Add renewals of aliases, their challengers, and reasons of audit events."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_renewals"
down_revision = "2026_11_27_finish"


def upgrade() -> None:
    for table in ("jobs", "model_versions"):
        is_challenger = sa.Column(
            "is_challenger", sa.Boolean(), nullable=False, server_default=sa.false()
        )
        op.add_column(table, is_challenger)
    op.add_column("audit_events", sa.Column("reason", sa.String(500), nullable=True))
    time = sa.DateTime(timezone=True)
    op.create_table(
        "renewals",
        sa.Column("monitor_id", sa.String(40), nullable=False),
        sa.Column("rule", sa.JSON(), nullable=False),
        sa.Column("dataset_id", sa.String(40), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("next_state", sa.String(16), nullable=True),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("copied_at", time, nullable=False),
        sa.Column("due_at", time, nullable=True),
        sa.Column("rows_id", sa.String(40), nullable=True),
        sa.Column("combined_id", sa.String(40), nullable=True),
        sa.Column("job_id", sa.String(40), nullable=True),
        sa.Column("champion", sa.Integer(), nullable=True),
        sa.Column("challenger", sa.Integer(), nullable=True),
        sa.Column("trial_at", time, nullable=True),
        sa.Column("trial", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("n_trials", sa.Integer(), nullable=False),
        sa.Column("previous_version", sa.Integer(), nullable=True),
        sa.Column("change_id", sa.String(40), nullable=False),
        sa.Column("updated_at", time, nullable=False),
        sa.PrimaryKeyConstraint("monitor_id", name="pk_renewals"),
    )
