"""Linear baselines of MTFL."""

from algorithms.baselines.linear.lasso import SharedLasso
from algorithms.baselines.linear.logistic import LogisticRegression
from algorithms.baselines.linear.mean_regularised import MeanRegularised
from algorithms.baselines.linear.ridge import KernelRidge, Ridge

__all__ = ["KernelRidge", "LogisticRegression", "MeanRegularised", "Ridge", "SharedLasso"]
