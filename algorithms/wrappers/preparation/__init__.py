"""Preparation of raw tables: gaps are filled, categories and dates become numbers.

:mod:`~algorithms.wrappers.preparation.columns` describes raw columns, ``recipe`` the options,
``rows`` the preparation that is learned from training rows and applied to new ones, ``learning``
how it is learned for the tasks of a fit, and ``algorithm`` and ``model`` let any algorithm work on
raw rows.
"""
