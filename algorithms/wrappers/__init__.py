"""Wrappers around any algorithm: weights, preparation, calibration, and tasks learned alone."""
