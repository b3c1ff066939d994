"""Add monitors of aliases, with the rows and targets that they keep."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_monitors"
down_revision = "2026_11_27_ties"


def upgrade() -> None:
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
