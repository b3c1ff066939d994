"""Numerical routines that depend on numpy and scipy only, and on numba in ``kernels_*`` modules."""
