"""FMTL: output-kernel learning, how tasks are related learned with the tasks."""

from algorithms.fmtl.algorithm import FMTL
from algorithms.fmtl.params import FMTLParams

__all__ = ["FMTL", "FMTLParams"]
