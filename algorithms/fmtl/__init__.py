"""FMTL: output-kernel learning, which learns the relations between tasks."""

from algorithms.fmtl.algorithm import FMTL
from algorithms.fmtl.params import FMTLParams

__all__ = ["FMTL", "FMTLParams"]
