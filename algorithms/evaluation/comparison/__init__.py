"""Comparison of an algorithm with its baselines."""
