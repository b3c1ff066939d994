"""k-nearest neighbours."""

from algorithms.neighbours.algorithm import Neighbours

__all__ = ["Neighbours"]
