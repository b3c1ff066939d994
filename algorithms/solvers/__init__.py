"""Iterative methods under a trace that more than one family uses."""
