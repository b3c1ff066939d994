"""Objectives of a transfer as functions of K, the covariance of the active rows of both tasks.

The active rows Y_I of the source come first, then the active rows Y_tJ of the target.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from algorithms.families.latent.objective import Terms
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaussian_divergences import DIVERGENCES, spectral_divergence
from algorithms.numerics.gp_terms import (
    compress_rows,
    conditional_negative_log_likelihood,
    negative_log_likelihood,
)
from algorithms.tlvm.params import TLVMParams


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Positions of paired source and target rows among all active rows.

    Parameters
    ----------
    source, target : (min(r, r_t),)
    """

    source: NDArray[np.intp]
    target: NDArray[np.intp]


def pair_rows(Y: Array, Yt: Array, *, pairing: str) -> Pairs:
    """Return pairs of active rows Y (r, D) and Y_t (r_t, D), which are centred per task."""
    n = min(len(Y), len(Yt))
    if pairing == "assign":
        source, target = linear_sum_assignment(cdist(Y, Yt, "sqeuclidean"))
    else:
        source, target = np.arange(n), np.arange(n)
    return Pairs(source, len(Y) + target)


def transfer_terms(Y: Array, Yt: Array, params: TLVMParams) -> Terms:
    """Return the objective F as a function of K (r + r_t, r + r_t)."""
    rows = compress_rows(np.concatenate([Y, Yt]))
    likelihood = _LIKELIHOODS[params.objective](rows, len(Y), Y.shape[1])
    pairs = pair_rows(Y, Yt, pairing=params.pairing)

    def terms(K: Array) -> tuple[float, Array]:
        value, G = likelihood(K)
        if params.lam > 0:
            weight = params.lam * Y.shape[1]
            value += weight * add_divergence_inplace(G, K, pairs, params, weight=weight)
        return value, G

    return terms


def add_divergence_inplace(
    G: Array, K: Array, pairs: Pairs, params: TLVMParams, *, weight: float
) -> float:
    """Return Div(K[a, a] ‖ K[b, b]) of paired rows, and add ``weight`` times its gradient to G."""
    divergence = DIVERGENCES[params.divergence]
    if params.pairing == "spectral":
        divergence = partial(spectral_divergence, divergence)
    a, b = np.ix_(pairs.source, pairs.source), np.ix_(pairs.target, pairs.target)
    value, by_source, by_target = divergence(K[a], K[b])
    G[a] += weight * by_source
    G[b] += weight * by_target
    return value


def _joint(Y: Array, r: int, D: int) -> Terms:
    """Return -ln N([Y_I; Y_tJ]; 0, K), eq. 10 for the rows of both tasks."""
    del r
    return partial(negative_log_likelihood, Y=Y, n_columns=D)


def _printed(Y: Array, r: int, D: int) -> Terms:
    """Return L of the source alone; with λ = 1 and KL, F is F_I of eq. 19 up to a constant."""

    def terms(K: Array) -> tuple[float, Array]:
        G = np.zeros_like(K)
        value, G[:r, :r] = negative_log_likelihood(K[:r, :r], Y[:r], n_columns=D)
        return value, G

    return terms


def _conditional(Y: Array, r: int, D: int) -> Terms:
    """Return L of the source plus -ln N of each target row given the source, eq. 25."""

    def terms(K: Array) -> tuple[float, Array]:
        value, G = conditional_negative_log_likelihood(K, Y[:r], Y[r:], n_columns=D)
        of_source, by_source = negative_log_likelihood(K[:r, :r], Y[:r], n_columns=D)
        G[:r, :r] += by_source
        return value + of_source, G

    return terms


def _marginal(Y: Array, r: int, D: int) -> Terms:
    """Return L of the source plus L of the target, eqs. 10 and 13."""

    def terms(K: Array) -> tuple[float, Array]:
        G = np.zeros_like(K)
        of_source, G[:r, :r] = negative_log_likelihood(K[:r, :r], Y[:r], n_columns=D)
        of_target, G[r:, r:] = negative_log_likelihood(K[r:, r:], Y[r:], n_columns=D)
        return of_source + of_target, G

    return terms


_LIKELIHOODS: dict[str, Callable[[Array, int, int], Terms]] = {
    "joint": _joint,
    "printed": _printed,
    "conditional": _conditional,
    "marginal": _marginal,
}
