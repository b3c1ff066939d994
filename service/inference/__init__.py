"""Trained models at work: rows in, rows out."""
