"""Audit events: who changed or tried to change what, and when."""
