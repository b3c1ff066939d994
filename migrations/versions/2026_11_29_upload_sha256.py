"""Add the declared SHA-256 of uploads that are sent in parts."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_29_upload_sha256"
down_revision = "2026_11_28_uploads"


def upgrade() -> None:
    op.add_column("uploads", sa.Column("sha256", sa.String(64), nullable=True))


def downgrade() -> None:
    op.drop_column("uploads", "sha256")
