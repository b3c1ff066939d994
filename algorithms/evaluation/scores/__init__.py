"""Metrics, losses and importance of columns on held-out rows."""
