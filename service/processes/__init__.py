"""Identity, lifetime and kernels of processes."""
