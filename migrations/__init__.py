"""Alembic migrations: one per release, dated, only up, never edited after the release."""
