"""The race of several methods, and the weighted ensemble of the best of them."""

from algorithms.ensemble.algorithm import Ensemble

__all__ = ["Ensemble"]
