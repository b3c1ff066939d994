"""Multi-task Gaussian process: a function that the tasks share, and one of each task."""

from algorithms.gp.algorithm import MultiTaskGP

__all__ = ["MultiTaskGP"]
