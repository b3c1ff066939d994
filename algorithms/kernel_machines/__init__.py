"""What output-kernel learning and its baselines share: kernels, losses, dual ascent, the model."""
