"""RMT-PCA, regularised multi-task PCA. Start reading at ``algorithm.py``."""

from algorithms.rmtpca.algorithm import RMTPCA
from algorithms.rmtpca.params import RMTPCAParams

__all__ = ["RMTPCA", "RMTPCAParams"]
