"""HTTP routes of the algorithm registry."""
