"""Add aliases of model versions."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_21_aliases"
down_revision = "2026_11_21_classes"


def upgrade() -> None:
    op.create_table(
        "model_aliases",
        sa.Column("model_id", sa.String(length=40), nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("version_id", sa.String(length=40), nullable=False),
        sa.Column("move_id", sa.String(length=40), nullable=False),
        sa.Column("moved_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_model_aliases_model_id")
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["model_versions.id"], name=op.f("fk_model_aliases_version_id")
        ),
        sa.PrimaryKeyConstraint("model_id", "alias", name=op.f("pk_model_aliases")),
    )
    op.create_index(op.f("ix_model_aliases_version_id"), "model_aliases", ["version_id"])


def downgrade() -> None:
    op.drop_table("model_aliases")
