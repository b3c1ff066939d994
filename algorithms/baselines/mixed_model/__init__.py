"""Partial pooling by a linear mixed model."""

from algorithms.baselines.mixed_model.algorithm import MixedModel

__all__ = ["MixedModel"]
