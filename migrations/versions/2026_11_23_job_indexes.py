"""Add indexes for lists, counts, admission, and look-ups of what references a row."""

from alembic import op

revision = "2026_11_23_job_indexes"
down_revision = "2026_11_23_owner_turns"

_BEFORE = [
    ("ix_jobs_queue", "jobs", ["state", "priority"]),
    ("ix_jobs_state", "jobs", ["state"]),
    ("ix_jobs_owner", "jobs", ["owner"]),
    ("ix_jobs_parent_id", "jobs", ["parent_id"]),
    ("ix_jobs_dataset_id", "jobs", ["dataset_id"]),
    ("ix_datasets_owner", "datasets", ["owner"]),
]
_AFTER = [
    ("ix_jobs_queue", "jobs", ["state", "owner", "priority", "root_id", "id"]),
    ("ix_jobs_state", "jobs", ["state", "id"]),
    ("ix_jobs_list", "jobs", ["owner", "parent_id", "id"]),
    ("ix_jobs_list_by_state", "jobs", ["owner", "state", "parent_id", "id"]),
    ("ix_jobs_children", "jobs", ["parent_id", "state"]),
    ("ix_jobs_dataset", "jobs", ["dataset_id", "state"]),
    ("ix_jobs_output_blob_id", "jobs", ["output_blob_id"]),
    ("ix_jobs_checkpoint_blob_id", "jobs", ["checkpoint_blob_id"]),
    ("ix_datasets_list", "datasets", ["owner", "id"]),
    ("ix_datasets_state", "datasets", ["state"]),
    ("ix_datasets_upload_blob_id", "datasets", ["upload_blob_id"]),
    ("ix_datasets_content_blob_id", "datasets", ["content_blob_id"]),
    ("ix_model_versions_artifact_blob_id", "model_versions", ["artifact_blob_id"]),
    ("ix_idempotency_keys_resource_id", "idempotency_keys", ["resource_id"]),
]

_Indexes = list[tuple[str, str, list[str]]]


def upgrade() -> None:
    _replace(_BEFORE, _AFTER)


def downgrade() -> None:
    _replace(_AFTER, _BEFORE)


def _replace(old: _Indexes, new: _Indexes) -> None:
    for name, table, _ in old:
        op.drop_index(name, table_name=table)
    for name, table, columns in new:
        op.create_index(name, table, columns, unique=False)
