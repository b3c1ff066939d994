"""Linear baselines of MTFL."""

from algorithms.linear_baselines.lasso import SharedLasso
from algorithms.linear_baselines.logistic import LogisticRegression
from algorithms.linear_baselines.mean_regularised import MeanRegularised
from algorithms.linear_baselines.ridge import KernelRidge, Ridge

__all__ = ["KernelRidge", "LogisticRegression", "MeanRegularised", "Ridge", "SharedLasso"]
