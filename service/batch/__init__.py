"""Models over whole datasets, as jobs: what a call is too small for."""
