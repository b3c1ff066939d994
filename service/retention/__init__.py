"""Retention: deletion of what has expired, in the background."""
