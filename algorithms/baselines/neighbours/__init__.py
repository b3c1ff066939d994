"""k-nearest neighbours."""

from algorithms.baselines.neighbours.algorithm import Neighbours

__all__ = ["Neighbours"]
