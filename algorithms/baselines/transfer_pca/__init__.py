"""PCA and probabilistic PCA of a source with an up-weighted target."""

from algorithms.baselines.transfer_pca.algorithm import PPCA, TransferPCA

__all__ = ["PPCA", "TransferPCA"]
