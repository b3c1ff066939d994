"""Kernels, losses, dual ascent and the model of output-kernel learning and its baselines."""
