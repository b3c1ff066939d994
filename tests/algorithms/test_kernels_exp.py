"""The vectorised exponential function."""

import numpy as np

from algorithms.numerics.kernels.exp import MIN_ARGUMENT, exponentials
from algorithms.numerics.kernels.latent import covariances_of

#: Two units in the last place.
EXP_RTOL = 4.5e-16


def exponentials_of(x):
    out = np.empty_like(x)
    exponentials(x.copy(), out)
    return out


def test_exponentials_are_those_of_numpy() -> None:
    x = -np.concatenate([np.linspace(0.0, 707.0, 50_001), np.geomspace(1e-300, 700.0, 10_001)])
    np.testing.assert_allclose(exponentials_of(x), np.exp(x), rtol=EXP_RTOL, atol=0)


def test_exponentials_too_small_for_normal_numbers_are_that_of_the_smallest_argument() -> None:
    x = np.array([MIN_ARGUMENT, -709.0, -1e4, -np.inf])
    np.testing.assert_allclose(exponentials_of(x), np.exp(MIN_ARGUMENT), rtol=1e-12)
    assert np.isnan(exponentials_of(np.array([np.nan]))).all()


def test_exponentials_are_exact_inside_kernels_that_may_reorder_sums() -> None:
    rng = np.random.default_rng(0)
    x, active, numbers = rng.standard_normal(3), rng.standard_normal((9, 3)), np.array([2.0, 0.7])
    k, kind = np.empty(9), (True, False)
    own = covariances_of(x, np.ascontiguousarray(active.T), numbers, kind[0], k, np.empty(9))
    np.testing.assert_allclose(k, 2.0 * np.exp(-0.35 * np.sum((x - active) ** 2, axis=1)))
    assert own == 2.0
