"""Add outputs of batch inference, and the origin of datasets that jobs create."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_21_batch_inference"
down_revision = "2026_11_21_aliases"


def upgrade() -> None:
    with op.batch_alter_table("datasets") as batch_op:
        batch_op.add_column(sa.Column("origin", sa.JSON(), nullable=True))
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.add_column(sa.Column("output_blob_id", sa.String(length=40), nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_jobs_output_blob_id"), "blobs", ["output_blob_id"], ["id"]
        )


def downgrade() -> None:
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_jobs_output_blob_id"), type_="foreignkey")
        batch_op.drop_column("output_blob_id")
    with op.batch_alter_table("datasets") as batch_op:
        batch_op.drop_column("origin")
