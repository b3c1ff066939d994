"""Add uploads that are sent in parts."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_28_uploads"
down_revision = "2026_11_27_dataset_sources"


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("media_type", sa.String(100), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("tag", sa.String(200), nullable=True),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("blob_id", sa.String(40), sa.ForeignKey("blobs.id"), nullable=True),
        sa.Column("dataset_id", sa.String(40), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_uploads_list", "uploads", ["owner", "id"])
    op.create_index("ix_uploads_blob_id", "uploads", ["blob_id"])


def downgrade() -> None:
    op.drop_table("uploads")
