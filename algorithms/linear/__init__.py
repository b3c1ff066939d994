"""Linear functions of columns or of a kernel, shared by MTFL and the linear baselines."""
