"""Fits of the tasks that have the same columns, where others have different ones."""
