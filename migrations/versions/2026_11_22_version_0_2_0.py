"""Create the tables of version 0.2.0."""

import sqlalchemy as sa
from alembic import op

# the last revision of version 0.2.0, whose databases have it
revision = "2026_11_23_job_retry_at"
down_revision = None


def upgrade() -> None:
    _create_blobs_and_datasets()
    _create_jobs()
    _create_models()
    _create_administration()


def _create_blobs_and_datasets() -> None:
    op.create_table(
        "blobs",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_blobs"),
        sa.UniqueConstraint("sha256", name="uq_blobs_sha256"),
    )
    op.create_table(
        "blob_chunks",
        sa.Column("blob_id", sa.String(40), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["blob_id"], ["blobs.id"], name="fk_blob_chunks_blob_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("blob_id", "position", name="pk_blob_chunks"),
    )
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("media_type", sa.String(100), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("upload_sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("upload_blob_id", sa.String(40), nullable=True),
        sa.Column("content_blob_id", sa.String(40), nullable=True),
        sa.Column("content_sha256", sa.String(64), nullable=True),
        sa.Column("manifest", sa.JSON(), nullable=True),
        sa.Column("issues", sa.JSON(), nullable=False),
        sa.Column("ingester", sa.String(500), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("origin", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(
            ["content_blob_id"], ["blobs.id"], name="fk_datasets_content_blob_id"
        ),
        sa.ForeignKeyConstraint(
            ["upload_blob_id"], ["blobs.id"], name="fk_datasets_upload_blob_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
        sa.UniqueConstraint("owner", "fingerprint", name="uq_datasets_owner"),
    )
    op.create_index("ix_datasets_list", "datasets", ["owner", "id"])
    op.create_index("ix_datasets_state", "datasets", ["state"])
    op.create_index("ix_datasets_upload_blob_id", "datasets", ["upload_blob_id"])
    op.create_index("ix_datasets_content_blob_id", "datasets", ["content_blob_id"])


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("dataset_id", sa.String(40), nullable=False),
        sa.Column("algorithm", sa.String(64), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("model_name", sa.String(200), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("timeout_s", sa.Double(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("counted_attempts", sa.Integer(), nullable=False),
        sa.Column("is_cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("worker", sa.String(500), nullable=True),
        sa.Column("heartbeat", sa.BigInteger(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("traceparent", sa.String(100), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("threads", sa.Integer(), nullable=True),
        sa.Column("parent_id", sa.String(40), nullable=True),
        sa.Column("plan", sa.JSON(), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("checkpoint_blob_id", sa.String(40), nullable=True),
        sa.Column("is_release_requested", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("output_blob_id", sa.String(40), nullable=True),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("root_id", sa.String(40), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="fk_jobs_dataset_id"),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["jobs.id"], name="fk_jobs_parent_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["checkpoint_blob_id"], ["blobs.id"], name="fk_jobs_checkpoint_blob_id"
        ),
        sa.ForeignKeyConstraint(["output_blob_id"], ["blobs.id"], name="fk_jobs_output_blob_id"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_queue", "jobs", ["state", "owner", "priority", "root_id", "id"])
    op.create_index("ix_jobs_state", "jobs", ["state", "id"])
    op.create_index("ix_jobs_list", "jobs", ["owner", "parent_id", "id"])
    op.create_index("ix_jobs_list_by_state", "jobs", ["owner", "state", "parent_id", "id"])
    op.create_index("ix_jobs_children", "jobs", ["parent_id", "state"])
    op.create_index("ix_jobs_dataset", "jobs", ["dataset_id", "state"])
    op.create_index("ix_jobs_output_blob_id", "jobs", ["output_blob_id"])
    op.create_index("ix_jobs_checkpoint_blob_id", "jobs", ["checkpoint_blob_id"])
    op.create_index("ix_jobs_retry_at", "jobs", ["retry_at"])
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(500), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_attempts_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_attempts"),
    )
    op.create_table(
        "events",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_events_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_job", "events", ["job_id", "id"])


def _create_models() -> None:
    op.create_table(
        "models",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("latest_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sa.UniqueConstraint("owner", "name", name="uq_models_owner"),
    )
    op.create_table(
        "model_versions",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("model_id", sa.String(40), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("dataset_id", sa.String(40), nullable=False),
        sa.Column("dataset_sha256", sa.String(64), nullable=False),
        sa.Column("algorithm", sa.String(64), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("software", sa.JSON(), nullable=False),
        sa.Column("methods", sa.JSON(), nullable=False),
        sa.Column("tasks", sa.JSON(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("history", sa.JSON(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("artifact_blob_id", sa.String(40), nullable=False),
        sa.Column("artifact_sha256", sa.String(64), nullable=False),
        sa.Column("artifact_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("report", sa.JSON(), nullable=True),
        sa.Column("base_id", sa.String(40), nullable=True),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["artifact_blob_id"], ["blobs.id"], name="fk_model_versions_artifact_blob_id"
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_model_versions_dataset_id"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_model_versions_job_id"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_model_versions_model_id"),
        sa.ForeignKeyConstraint(
            ["base_id"],
            ["model_versions.id"],
            name="fk_model_versions_base_id",
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_model_versions"),
        sa.UniqueConstraint("job_id", name="uq_model_versions_job_id"),
        sa.UniqueConstraint("model_id", "version", name="uq_model_versions_model_id"),
    )
    op.create_index("ix_model_versions_dataset_id", "model_versions", ["dataset_id"])
    op.create_index("ix_model_versions_model_id", "model_versions", ["model_id"])
    op.create_index("ix_model_versions_base_id", "model_versions", ["base_id"])
    op.create_index("ix_model_versions_artifact_blob_id", "model_versions", ["artifact_blob_id"])
    op.create_table(
        "model_aliases",
        sa.Column("model_id", sa.String(40), nullable=False),
        sa.Column("alias", sa.String(64), nullable=False),
        sa.Column("version_id", sa.String(40), nullable=False),
        sa.Column("move_id", sa.String(40), nullable=False),
        sa.Column("moved_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_model_aliases_model_id"),
        sa.ForeignKeyConstraint(
            ["version_id"], ["model_versions.id"], name="fk_model_aliases_version_id"
        ),
        sa.PrimaryKeyConstraint("model_id", "alias", name="pk_model_aliases"),
    )
    op.create_index("ix_model_aliases_version_id", "model_aliases", ["version_id"])


def _create_administration() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_owner", "api_keys", ["owner"])
    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("resource_id", sa.String(40), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_resource_id", "idempotency_keys", ["resource_id"])
    op.create_table(
        "leases",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("holder", sa.String(500), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "owner_turns",
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_owner_turns"),
    )
