"""Gradient-boosted trees."""

from algorithms.baselines.boosted_trees.algorithm import BoostedTrees

__all__ = ["BoostedTrees"]
