"""Add attempts, child jobs, checkpoints, threads, reports and lineage."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_21_attempts_and_parts"
down_revision = "2026_11_21_api_keys"


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=500), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_attempts_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", name=op.f("pk_attempts")),
    )
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.add_column(sa.Column("threads", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("parent_id", sa.String(length=40), nullable=True))
        batch_op.add_column(sa.Column("plan", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("result", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("checkpoint_blob_id", sa.String(length=40), nullable=True))
        batch_op.add_column(
            sa.Column(
                "is_release_requested", sa.Boolean(), nullable=False, server_default=sa.false()
            )
        )
        batch_op.create_index(batch_op.f("ix_jobs_parent_id"), ["parent_id"], unique=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_jobs_parent_id"), "jobs", ["parent_id"], ["id"], ondelete="CASCADE"
        )
        batch_op.create_foreign_key(
            batch_op.f("fk_jobs_checkpoint_blob_id"), "blobs", ["checkpoint_blob_id"], ["id"]
        )
    with op.batch_alter_table("model_versions") as batch_op:
        batch_op.add_column(sa.Column("report", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("base_id", sa.String(length=40), nullable=True))
        batch_op.create_index(batch_op.f("ix_model_versions_base_id"), ["base_id"], unique=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_model_versions_base_id"),
            "model_versions",
            ["base_id"],
            ["id"],
            ondelete="SET NULL",
        )


def downgrade() -> None:
    with op.batch_alter_table("model_versions") as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_model_versions_base_id"), type_="foreignkey")
        batch_op.drop_index(batch_op.f("ix_model_versions_base_id"))
        batch_op.drop_column("base_id")
        batch_op.drop_column("report")
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_jobs_checkpoint_blob_id"), type_="foreignkey")
        batch_op.drop_constraint(batch_op.f("fk_jobs_parent_id"), type_="foreignkey")
        batch_op.drop_index(batch_op.f("ix_jobs_parent_id"))
        for column in (
            "is_release_requested",
            "checkpoint_blob_id",
            "result",
            "plan",
            "parent_id",
            "threads",
        ):
            batch_op.drop_column(column)
    op.drop_table("attempts")
