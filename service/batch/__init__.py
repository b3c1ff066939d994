"""Batch inference: a job that applies a model to a whole dataset."""
