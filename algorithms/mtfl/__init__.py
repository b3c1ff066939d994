"""MTFL: convex multi-task feature learning."""

from algorithms.mtfl.algorithm import MTFL
from algorithms.mtfl.params import MTFLParams

__all__ = ["MTFL", "MTFLParams"]
