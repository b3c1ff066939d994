"""Add the turns of owners, and the root of each job, for the order of the queue."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_23_owner_turns"
down_revision = "2026_11_23_job_names"


def upgrade() -> None:
    op.create_table(
        "owner_turns",
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_owner_turns")),
    )
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.add_column(sa.Column("root_id", sa.String(length=40), nullable=True))
    op.execute("UPDATE jobs SET root_id = coalesce(parent_id, id)")
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.alter_column("root_id", existing_type=sa.String(length=40), nullable=False)


def downgrade() -> None:
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.drop_column("root_id")
    op.drop_table("owner_turns")
