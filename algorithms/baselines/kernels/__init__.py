"""Baselines of output-kernel learning: separate machines, and other output kernels."""

from algorithms.baselines.kernels.fixed import GraphMachines, MeanMachines, TaskMachines
from algorithms.baselines.kernels.mtrl import MTRL
from algorithms.baselines.kernels.okl import OKL, ConvexOKL
from algorithms.baselines.kernels.scaled import ScaledMachines

__all__ = [
    "MTRL",
    "OKL",
    "ConvexOKL",
    "GraphMachines",
    "MeanMachines",
    "ScaledMachines",
    "TaskMachines",
]
