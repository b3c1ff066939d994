"""What output-kernel learning is compared with: fixed relations, MTRL, OKL and ConvexOKL."""

from algorithms.kernel_baselines.fixed import MeanMachines, TaskMachines
from algorithms.kernel_baselines.mtrl import MTRL
from algorithms.kernel_baselines.okl import OKL, ConvexOKL

__all__ = ["MTRL", "OKL", "ConvexOKL", "MeanMachines", "TaskMachines"]
