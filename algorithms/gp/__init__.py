"""Multi-task Gaussian process: a function that the tasks share, and one of each task."""

from algorithms.gp.algorithm import GP

__all__ = ["GP"]
