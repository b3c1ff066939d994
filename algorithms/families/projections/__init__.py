"""Discriminant projections and their classifier, for MTDA and its baselines."""
