"""Change the tables of version 0.2.0 to those of version 0.3.0.

The revision has the name of the last single step of its development, which databases of version
0.3.0 have.
"""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_26_new_tasks"
down_revision = "2026_11_23_job_retry_at"


def upgrade() -> None:
    _change_datasets()
    _change_jobs()
    _change_model_versions()
    _change_administration()


def _change_datasets() -> None:
    op.add_column("datasets", sa.Column("sources", sa.JSON(), nullable=True))
    op.add_column("datasets", sa.Column("parsed_bytes", sa.BigInteger(), nullable=True))
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("media_type", sa.String(100), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("tag", sa.String(200), nullable=True),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("blob_id", sa.String(40), nullable=True),
        sa.Column("dataset_id", sa.String(40), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=True),
        sa.ForeignKeyConstraint(["blob_id"], ["blobs.id"], name="fk_uploads_blob_id"),
        sa.PrimaryKeyConstraint("id", name="pk_uploads"),
    )
    op.create_index("ix_uploads_list", "uploads", ["owner", "id"])
    op.create_index("ix_uploads_blob_id", "uploads", ["blob_id"])


def _change_jobs() -> None:
    op.add_column("jobs", sa.Column("base_version_id", sa.String(40), nullable=True))
    # jobs that adapt or apply a model version had it in their plan only
    jobs = sa.table("jobs", sa.column("plan", sa.JSON), sa.column("base_version_id", sa.String))
    in_plan = jobs.c.plan["version_id"].as_string()
    op.execute(sa.update(jobs).values(base_version_id=in_plan).where(in_plan.is_not(None)))
    for column in ("preparation", "spec", "calibration", "class_weight"):
        op.add_column("jobs", sa.Column(column, sa.JSON(), nullable=True))
    op.add_column("jobs", sa.Column("expected_s", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("reference_s", sa.Double(), nullable=True))
    op.add_column("jobs", _new_tasks())
    op.create_index("ix_jobs_finished_at", "jobs", ["finished_at"])
    _index_known("ix_jobs_outputs", ["owner", "output_blob_id"], "output_blob_id")
    _index_known("ix_jobs_base_version", ["owner", "state", "base_version_id"], "base_version_id")
    _index_known("ix_jobs_reference", ["state", "id"], "reference_s")


def _index_known(name: str, columns: list[str], known: str) -> None:
    """Create an index of the jobs in which one column is not null."""
    condition = sa.text(f"{known} IS NOT NULL")
    op.create_index(name, "jobs", columns, sqlite_where=condition, postgresql_where=condition)


def _new_tasks() -> sa.Column[str]:
    return sa.Column("new_tasks", sa.String(16), nullable=False, server_default="refuse")


def _change_model_versions() -> None:
    op.add_column("model_versions", sa.Column("preparation", sa.JSON(), nullable=True))
    op.add_column("model_versions", sa.Column("importance", sa.JSON(), nullable=True))
    task_column = sa.Column("task_column", sa.String(200), nullable=False, server_default="task")
    op.add_column("model_versions", task_column)
    op.add_column("model_versions", _new_tasks())
    # begins with the same column
    op.create_index("ix_model_versions_stored", "model_versions", ["model_id", "artifact_blob_id"])
    op.drop_index("ix_model_versions_model_id", table_name="model_versions")


def _change_administration() -> None:
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])
    op.add_column("api_keys", sa.Column("name", sa.String(200), nullable=True))
    op.add_column("api_keys", sa.Column("creator_id", sa.String(40), nullable=True))
    op.create_index("ix_api_keys_creator_id", "api_keys", ["creator_id"])
    op.create_table(
        "sessions",
        sa.Column("token_sha256", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(40), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_sha256", name="pk_sessions"),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name="fk_sessions_key_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_sessions_key_id", "sessions", ["key_id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_table(
        "audit_events",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("operation", sa.String(64), nullable=False),
        sa.Column("object", sa.String(500), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("code", sa.String(64), nullable=True),
        sa.Column("owner", sa.String(200), nullable=True),
        sa.Column("key_id", sa.String(40), nullable=True),
        sa.Column("source", sa.String(200), nullable=True),
        sa.Column("request_id", sa.String(128), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
    )
    op.create_index("ix_audit_events_owner", "audit_events", ["owner", "id"])
    op.create_index("ix_audit_events_key", "audit_events", ["key_id", "id"])
    op.create_index("ix_audit_events_object", "audit_events", ["object", "id"])
    op.create_index("ix_audit_events_created_at", "audit_events", ["created_at"])
