"""Options, report and verdict of the automatic choice, whose race is in ``algorithms.ensemble``."""
