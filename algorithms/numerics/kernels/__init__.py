"""Kernels compiled by numba, each beside a plain twin in numpy."""
