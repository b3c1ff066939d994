"""Monitors of aliases: rows that were predicted, their targets, and how the model does now."""
