"""Iterative solvers that several algorithm families share; a ``Trace`` runs their loops."""
