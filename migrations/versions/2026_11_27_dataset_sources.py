"""Keep the datasets that a dataset was made of."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_27_dataset_sources"
down_revision = "2026_11_26_job_spec"


def upgrade() -> None:
    op.add_column("datasets", sa.Column("sources", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("datasets", "sources")
