"""Audit events: changes and attempted changes, with caller, resource and time."""
