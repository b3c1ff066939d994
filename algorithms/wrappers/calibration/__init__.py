"""Probabilities, intervals and sets, from outputs for rows that were held out of the fit.

Any algorithm is fitted with all rows, and with all but one fold of them for each fold (cross-
fitting, :mod:`~algorithms.wrappers.calibration.cross_fitting`). The scores of the held-out rows
turn the score of a new row into probabilities
(:mod:`~algorithms.wrappers.calibration.probabilities`), and their errors give intervals and sets
(:mod:`~algorithms.wrappers.calibration.conformal`). ``algorithm`` and ``model`` let any algorithm
be trained so; ``options`` has the user's choices, and ``quality`` measures the probabilities.
"""
