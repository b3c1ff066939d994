"""Automatic choice of a method."""
