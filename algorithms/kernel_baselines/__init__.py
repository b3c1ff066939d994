"""What output-kernel learning is compared with: machines alone, fixed relations, other Θ."""

from algorithms.kernel_baselines.fixed import MeanMachines, TaskMachines
from algorithms.kernel_baselines.mtrl import MTRL
from algorithms.kernel_baselines.okl import OKL, ConvexOKL
from algorithms.kernel_baselines.scaled import ScaledMachines

__all__ = ["MTRL", "OKL", "ConvexOKL", "MeanMachines", "ScaledMachines", "TaskMachines"]
