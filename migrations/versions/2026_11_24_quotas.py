"""Add indexes for the sum of what an owner stores."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_24_quotas"
down_revision = "2026_11_24_job_ends"

_IS_SET = sa.text("output_blob_id IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_jobs_outputs",
        "jobs",
        ["owner", "output_blob_id"],
        sqlite_where=_IS_SET,
        postgresql_where=_IS_SET,
    )
    # begins with the same column
    op.create_index("ix_model_versions_stored", "model_versions", ["model_id", "artifact_blob_id"])
    op.drop_index("ix_model_versions_model_id", table_name="model_versions")


def downgrade() -> None:
    op.create_index("ix_model_versions_model_id", "model_versions", ["model_id"])
    op.drop_index("ix_model_versions_stored", table_name="model_versions")
    op.drop_index("ix_jobs_outputs", table_name="jobs")
