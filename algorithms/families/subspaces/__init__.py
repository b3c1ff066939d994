"""Moments, parameters and the model of subspaces, for all kinds of PCA."""
