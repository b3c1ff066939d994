"""Mathematics that could be lifted out whole: numpy and scipy, numba in ``kernels_*`` only."""
