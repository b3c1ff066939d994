"""Logs, metrics and readiness."""
