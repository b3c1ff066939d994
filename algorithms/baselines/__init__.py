"""Baselines: what the five papers and the automatic choice are compared with."""
