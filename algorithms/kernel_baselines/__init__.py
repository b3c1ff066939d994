"""Baselines of output-kernel learning: separate machines, and other output kernels."""

from algorithms.kernel_baselines.fixed import GraphMachines, MeanMachines, TaskMachines
from algorithms.kernel_baselines.mtrl import MTRL
from algorithms.kernel_baselines.okl import OKL, ConvexOKL
from algorithms.kernel_baselines.scaled import ScaledMachines

__all__ = [
    "MTRL",
    "OKL",
    "ConvexOKL",
    "GraphMachines",
    "MeanMachines",
    "ScaledMachines",
    "TaskMachines",
]
