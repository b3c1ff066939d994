"""MTDA: discriminant analysis of several tasks with feature spaces of their own."""

from algorithms.mtda.algorithm import MTDA
from algorithms.mtda.params import MTDAParams

__all__ = ["MTDA", "MTDAParams"]
