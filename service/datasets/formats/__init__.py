"""Readers of upload formats: tables, records and archives of arrays."""
