"""Discriminant projections and their classifier, shared by MTDA and its baselines."""
