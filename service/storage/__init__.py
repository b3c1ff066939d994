"""Database, rows, blobs and states."""
