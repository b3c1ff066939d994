"""Grouped multi-task feature learning."""

from algorithms.gmtl.algorithm import GMTL

__all__ = ["GMTL"]
