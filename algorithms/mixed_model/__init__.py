"""Partial pooling by a linear mixed model."""

from algorithms.mixed_model.algorithm import MixedModel

__all__ = ["MixedModel"]
