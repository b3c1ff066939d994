"""Clustered multi-task learning."""

from algorithms.cmtl.algorithm import CMTL

__all__ = ["CMTL"]
