"""Selection of parameters, and cross-validation."""
