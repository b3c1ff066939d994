"""Models whose tasks come from two fits: some learned together, the others alone."""
