"""Add the progress of parsing to datasets."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_parsed_bytes"
down_revision = "2026_11_29_upload_sha256"


def upgrade() -> None:
    op.add_column("datasets", sa.Column("parsed_bytes", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("datasets", "parsed_bytes")
