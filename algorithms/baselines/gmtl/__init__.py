"""Grouped multi-task feature learning."""

from algorithms.baselines.gmtl.algorithm import GMTL

__all__ = ["GMTL"]
