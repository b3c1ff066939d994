"""Readers of upload formats: CSV tables and NumPy archives."""
