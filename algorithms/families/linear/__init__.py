"""Linear functions of columns or of a kernel, for MTFL and the linear baselines."""
