"""TLVM, transfer of a latent variable model. Start reading at ``algorithm.py``."""

from algorithms.tlvm.algorithm import TLVM
from algorithms.tlvm.params import TLVMParams

__all__ = ["TLVM", "TLVMParams"]
