"""Trained models: names, versions, artifacts, lineage."""
