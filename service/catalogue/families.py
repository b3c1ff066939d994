"""Families of algorithms, by the class of their parameters."""

from typing import Any, Final

from algorithms.baselines.linear.params import LinearParams
from algorithms.families.kernel_machines.params import KernelParams
from algorithms.families.latent.source import SourceParams
from algorithms.families.projections.params import ProjectionParams
from algorithms.families.subspaces.params import SubspaceParams
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.params import Params

#: Families by the class of their parameters.
FAMILIES: Final[dict[type[Params], str]] = {
    LinearParams: "Linear functions",
    KernelParams: "Kernel machines",
    ProjectionParams: "Discriminant projections",
    SubspaceParams: "Subspace methods",
    SourceParams: "Transfer methods",
    Params: "Further methods",
}


def family_of(algorithm: Algorithm[Any, Any]) -> str:
    """Return the title of the family of an algorithm; of two families, the later counts."""
    matching = [f for f in FAMILIES if f is not Params and issubclass(algorithm.Params, f)]
    return FAMILIES[matching[-1] if matching else Params]
