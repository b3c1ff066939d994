"""Gradient-boosted trees."""

from algorithms.boosted_trees.algorithm import BoostedTrees

__all__ = ["BoostedTrees"]
