"""Means, covariances and the model of a subspace, shared by every kind of PCA."""
