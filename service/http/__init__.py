"""Conventions that every route shares."""
