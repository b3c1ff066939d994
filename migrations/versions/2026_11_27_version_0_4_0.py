"""Change the tables of version 0.3.0 to those of version 0.4.0.

The revision has the name of the last single step of its development, so that databases of it are
recognised.
"""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_retries"
down_revision = "2026_11_26_new_tasks"


def upgrade() -> None:
    _change_jobs_and_model_versions()
    _create_webhooks()
    _create_monitors()
    _create_renewals()


def _change_jobs_and_model_versions() -> None:
    ties = sa.Column("ties", sa.String(16), nullable=False, server_default="auto")
    op.add_column("jobs", ties)
    op.add_column("jobs", _false("is_finish_requested"))
    op.add_column("jobs", _false("is_challenger"))
    op.add_column("model_versions", _false("is_challenger"))


def _false(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false())


def _create_webhooks() -> None:
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


def _create_monitors() -> None:
    op.create_table(
        "monitors",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("model_id", sa.String(40), nullable=False),
        sa.Column("alias", sa.String(64), nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        sa.Column("days", sa.Integer(), nullable=False),
        sa.Column("never_keep", sa.JSON(), nullable=False),
        sa.Column("n_dropped", sa.BigInteger(), nullable=False),
        sa.Column("looked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("alarm_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("trials", sa.JSON(), nullable=False),
        sa.Column("change_id", sa.String(40), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_monitors"),
        sa.UniqueConstraint("model_id", "alias", name="uq_monitors_model_id"),
        sa.ForeignKeyConstraint(
            ["model_id", "alias"],
            ["model_aliases.model_id", "model_aliases.alias"],
            name="fk_monitors_model_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "monitored_rows",
        sa.Column("monitor_id", sa.String(40), nullable=False),
        sa.Column("row_id", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("task", sa.String(1000), nullable=False),
        sa.Column("prediction", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("probability", sa.Double(), nullable=True),
        sa.Column("values", sa.LargeBinary(), nullable=True),
        sa.Column("unknown", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("monitor_id", "row_id", "version", name="pk_monitored_rows"),
    )
    op.create_index(
        "ix_monitored_rows_time", "monitored_rows", ["monitor_id", "created_at", "size_bytes"]
    )
    op.create_table(
        "monitored_targets",
        sa.Column("monitor_id", sa.String(40), nullable=False),
        sa.Column("row_id", sa.String(200), nullable=False),
        sa.Column("target", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("monitor_id", "row_id", name="pk_monitored_targets"),
    )
    op.create_index("ix_monitored_targets_time", "monitored_targets", ["monitor_id", "created_at"])


def _create_renewals() -> None:
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
        sa.Column("retry_at", time, nullable=True),
        sa.Column("change_id", sa.String(40), nullable=False),
        sa.Column("updated_at", time, nullable=False),
        sa.PrimaryKeyConstraint("monitor_id", name="pk_renewals"),
    )
