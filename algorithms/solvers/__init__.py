"""Iterative solvers, run by a trace, that several algorithm families share."""
