"""Transfer of a source's latent variable model to a target: steps 3 to 5 of the paper's Table 1."""

from dataclasses import dataclass

import numpy as np

from algorithms.families.latent.gp import LatentGP, project_rows_traced
from algorithms.families.latent.objective import LatentObjective, pack, unpack
from algorithms.interface.trace import PROJECTION, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.gp_covariances import COVARIANCES
from algorithms.numerics.informative_rows import informative_rows
from algorithms.numerics.latent_projection import Predictor, predictor
from algorithms.solvers.lbfgs import minimise
from algorithms.tlvm.objectives import add_divergence_inplace, pair_rows, transfer_terms
from algorithms.tlvm.params import TLVMParams

#: Number of loops of one transfer.
N_LOOPS = 2


@dataclass(frozen=True, slots=True, eq=False)
class TransferResult:
    """The result of a transfer.

    Parameters
    ----------
    process
        Gaussian process from latents to rows of the target.
    value
        Final value of the objective F.
    divergence
        Final divergence between paired active rows, per feature.
    """

    process: Predictor
    value: float
    divergence: float


def transfer(
    source: LatentGP, Yt: Array, params: TLVMParams, *, trace: Trace, name: str
) -> TransferResult:
    """Return the transfer to a target with rows Y_t (m, D).

    The rows are centred by their own mean and divided by the scale of the source.

    Parameters
    ----------
    name
        Name of the target in the trace.
    """
    theta, covariance = source.theta, COVARIANCES[params.kernel]
    noise = float(np.exp(theta[2])) + params.floor
    Xt = project_rows_traced(
        source.predictor(params), Yt, is_robust=True, trace=trace, loop=f"{PROJECTION} '{name}'"
    )
    J = informative_rows(covariance, Xt, theta, noise=noise, r=params.r)
    terms = transfer_terms(source.Y, Yt[J], params)
    L, r = source.X.shape[1], len(source.X)
    end = minimise(
        LatentObjective(covariance, terms, L, params.floor),
        pack(theta, np.concatenate([source.X, Xt[J]])),
        trace=trace,
        loop=f"transfer to '{name}'",
        max_iter=params.max_iter,
        tolerance=params.tolerance,
        scale=Yt.shape[1] * (r + len(J)),
    )
    theta, X = unpack(end.z, n_latents=L)
    Y = np.concatenate([source.Y, Yt[J]])
    used = _rows_for_prediction(params.objective, r)
    process = predictor(params.kernel, theta, X[used], Y[used], floor=params.floor)
    return TransferResult(process, end.objective, _divergence(theta, X, Y, r, params))


def _divergence(theta: Array, X: Array, Y: Array, r: int, params: TLVMParams) -> float:
    K = COVARIANCES[params.kernel].matrix(X, X, theta)
    K.flat[:: len(K) + 1] += float(np.exp(theta[2])) + params.floor
    pairs = pair_rows(Y[:r], Y[r:], pairing=params.pairing)
    return add_divergence_inplace(np.zeros_like(K), K, pairs, params, weight=0.0)


def _rows_for_prediction(objective: str, r: int) -> slice:
    """Return the active rows from which the model of an objective predicts target rows."""
    if objective == "joint":
        return slice(None)
    return slice(r, None) if objective == "marginal" else slice(r)
