"""Families: models, moments and parameters that several algorithms share."""
