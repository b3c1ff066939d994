"""Alembic migrations: one per change, dated, up and down, never edited after landing."""
