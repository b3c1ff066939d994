"""Clustered multi-task learning."""

from algorithms.baselines.cmtl.algorithm import CMTL

__all__ = ["CMTL"]
