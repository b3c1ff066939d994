"""Searches, comparisons and evaluations, each run as child jobs."""
